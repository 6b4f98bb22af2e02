"""
What is missing or small on the host.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="torch.missing",
        title="torch cannot be imported",
        text="{what} needs torch, and torch cannot be imported: {reason}.",
        fix="Install it with 'pip install torch'; if it is there, '{python} -c \"import torch\"' shows what is wrong.",
    ),
    Finding(
        id="demo.missing",
        title="A package that only the demo uses is missing",
        text="The demo needs {package}, which cannot be imported.",
        fix="Install it with 'pip install torch-autoloader[demo]', in the environment of {python}.",
    ),
    Finding(
        id="host.shared-memory-small",
        title="Shared memory is too small for worker processes",
        text="Shared memory is small: {path} has {free} free, and batches travel through it.",
        fix="Start the container with --shm-size=1g (Kubernetes: an emptyDir with medium: Memory at /dev/shm).",
    ),
    Finding(
        id="host.commit-limit",
        title="Windows can promise memory to few workers only",
        text=(
            "Windows promises no more than memory and page file hold, and each worker that imports torch has it "
            "promise a part of that, used or not: with CUDA's libraries up to 2.5 GiB."
        ),
        fix="Enlarge the page file (System, Advanced, Performance, Virtual memory) if loading is too slow.",
    ),
    Finding(
        id="host.open-files-low",
        title="Few files may be open",
        text="Few files may be open: the limit is {limit}, and each worker and each prefetched batch needs some.",
        fix="Raise it before training with 'ulimit -n 8192' (Docker: --ulimit nofile=8192).",
    ),
    Finding(
        id="host.cpu-quota",
        title="A quota grants fewer CPUs than the host shows",
        text="A quota grants {quota} CPUs of the {logical} that the host shows.",
        fix="Start the container with more --cpus (Kubernetes: a higher cpu limit) if loading is too slow.",
    ),
    Finding(
        id="host.openmp-binding",
        title="OpenMP may have bound this process to few CPUs",
        text="{variable} is set, and this process may use {cpus} CPUs only: all workers would share them.",
        fix="Import autoloader before torch, and workers get all CPUs back, or set OMP_PROC_BIND=false.",
    ),
    Finding(
        id="host.numa-near",
        title="Workers run near the accelerator",
        text="Workers run on the {cpus} of memory node {node}, where the accelerator of this process is.",
        fix="Pass numa='off' to let them run on all CPUs of this process.",
    ),
)
"""
The findings of this area, in the order of the docs.
"""
