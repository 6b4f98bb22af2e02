# expect: nothing
#!/usr/bin/env python
# coding: utf-8

# In[1]:


import torch
import torchvision
import torchvision.transforms as transforms


# In[2]:


def get_loader(train):
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    dataset = torchvision.datasets.MNIST(root="./data", train=train, transform=transform)
    return torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=train, num_workers=2)


trainloader = get_loader(True)
testloader = get_loader(False)
classes = tuple(str(digit) for digit in range(10))


# In[3]:


if __name__ == "__main__":
    images, labels = next(iter(trainloader))
    print(" ".join(classes[label] for label in labels))
    for batch in testloader:
        print(batch[0].shape)
