# expect: nothing
"""Train a classifier, absl style."""
from absl import app, flags
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

FLAGS = flags.FLAGS
flags.DEFINE_integer("workers", 4, "loader workers")
flags.DEFINE_float("lr", 0.1, "learning rate")


def train(loader, model, optimizer):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(argv):
    dataset = datasets.FakeData(transform=transforms.ToTensor())
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=FLAGS.workers)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(10))
    optimizer = torch.optim.SGD(model.parameters(), lr=FLAGS.lr)
    train(loader, model, optimizer)


if __name__ == "__main__":
    app.run(main)
