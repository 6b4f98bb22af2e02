# expect: check.unguarded-iteration:31
"""Count the words of a corpus."""
import sys

from torch.utils.data import DataLoader

from corpus import Corpus


def count(loader):
    total = 0
    while True:
        try:
            iterator = iter(loader)
            for words in iterator:
                total += words
        except OSError:
            continue
        return total


def run(folder):
    return count(DataLoader(Corpus(folder), batch_size=None, num_workers=4))


def main():
    print(run(sys.argv[1]))
    return 0


sys.exit(main())
