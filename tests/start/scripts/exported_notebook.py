# expect: check.not-importable:19, check.unguarded-iteration:27, check.unguarded-iteration:36
#!/usr/bin/env python
# coding: utf-8

# In[1]:


import matplotlib.pyplot as plt
import torch
import torchvision
import torchvision.transforms as transforms

get_ipython().run_line_magic("matplotlib", "inline")


# In[2]:


transform = transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x.view(-1))])
trainset = torchvision.datasets.MNIST(root="./data", train=True, download=True, transform=transform)
trainloader = torch.utils.data.DataLoader(trainset, batch_size=4, shuffle=True, num_workers=2)


# In[3]:


dataiter = iter(trainloader)
images, labels = next(dataiter)


# In[4]:


net = torch.nn.Linear(784, 10)
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
for epoch in range(2):
    for i, data in enumerate(trainloader, 0):
        inputs, labels = data
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
