# expect: check.unguarded-iteration:23, check.unguarded-iteration:28
#!/usr/bin/env python
# coding: utf-8

# # Training

# In[1]:

import torch
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, Resize, ToTensor

from autoloader import auto_loader

# In[2]:

dataset = ImageFolder("train", transform=Compose([Resize(224), ToTensor()]))
loader = auto_loader(dataset, batch_size=64, shuffle=True)
print(loader.plan)

# In[3]:

images, labels = next(iter(loader))
print(images.shape)

# In[4]:

for inputs, labels in loader:
    pass
