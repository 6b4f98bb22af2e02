# expect: nothing
"""Count the words of a corpus."""
import os
import sys

from torch.utils.data import DataLoader, Dataset


class Corpus(Dataset):
    def __init__(self, folder):
        self.files = sorted((entry.path for entry in os.scandir(folder)), key=lambda path: os.path.getsize(path))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with open(self.files[index], encoding="utf-8") as file:
            return len(file.read().split())


def main(argv=None):
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        print(__doc__)
        return 2
    loader = DataLoader(Corpus(arguments[0]), batch_size=None, num_workers=os.cpu_count())
    print(sum(loader))
    with open("counts.txt", "w") as file:
        file.writelines(f"{count}\n" for count in loader)
    return 0


if __name__ == "__main__":
    sys.exit(main())
