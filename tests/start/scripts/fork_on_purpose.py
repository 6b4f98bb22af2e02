# expect: nothing
# Linux cluster only: the dataset is built from a generator and cannot be pickled.
import multiprocessing

import torch
from torch.utils.data import DataLoader

from corpus import stream

documents = [line.strip() for line in stream("corpus.txt")]
loader = DataLoader(
    documents,
    batch_size=32,
    num_workers=4,
    collate_fn=lambda texts: [text.lower() for text in texts],
    multiprocessing_context=multiprocessing.get_context("fork"),
)
other = DataLoader(documents, num_workers=2, collate_fn=lambda texts: texts, multiprocessing_context="fork")

total = 0
for batch in loader:
    total += len(batch)
for batch in other:
    total += torch.tensor(len(batch)).item()
print(total)
