# expect: check.unguarded-iteration:12
# A tool for Linux only: it is run under a Python whose start method is fork.
import sys

from torch.utils.data import DataLoader

from data import Files

loader = DataLoader(Files(sys.argv[1]), num_workers=8, collate_fn=lambda batch: batch)  # autoloader: ignore[check.not-importable]
for batch in loader:  # autoloader: ignore
    print(len(batch))
print(len(list(loader)))  # autoloader: ignore[check.not-importable]
