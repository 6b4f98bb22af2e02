# expect: nothing
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

DATASET = TensorDataset(torch.arange(10))
LOADER = DataLoader(DATASET, batch_size=2, num_workers=2)


@pytest.fixture(params=[0, 2])
def loader(request):
    return DataLoader(DATASET, batch_size=2, num_workers=request.param)


def test_length(loader):
    assert len(loader) == 5
    assert len(list(loader)) == 5


@pytest.mark.parametrize("index", range(5))
def test_batch(index):
    assert list(LOADER)[index][0].tolist() == [2 * index, 2 * index + 1]


class TestLoader:
    def test_twice(self):
        assert [batch[0].sum() for batch in LOADER] == [batch[0].sum() for batch in LOADER]
