"""
The second run of a training, in a process of its own.

``resume_job.py CHECKPOINT KIND WORKERS`` prints the rest of the epoch as JSON.
"""

import json
import sys
import warnings

import torch

from loader.chosen import epochs_of
from loader.resuming import loader_of, resumed

if __name__ == "__main__":
    warnings.filterwarnings("ignore", "resume.fast-forward")
    checkpoint, kind, workers = sys.argv[1:]
    state = torch.load(checkpoint, weights_only=True)
    with resumed(loader_of(kind, int(workers)), state) as loader:
        print(json.dumps(epochs_of(loader)[0]))
