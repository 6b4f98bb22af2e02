# expect: check.unguarded-iteration:25
from absl import app, flags
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

FLAGS = flags.FLAGS
flags.DEFINE_integer("workers", 4, "loader workers")


def evaluate(loader, model):
    correct = 0
    with torch.no_grad():
        for images, labels in loader:
            correct += (model(images).argmax(1) == labels).sum().item()
    return correct


def main(argv):
    dataset = datasets.FakeData(transform=transforms.ToTensor())
    loader = DataLoader(dataset, 32, num_workers=FLAGS.workers)
    print(evaluate(loader, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(10))))


app.run(main)
