"""
Calls by name: what they do with a loader, or with a function, that they are given.
"""

import re

WRAPPERS = {
    *("tqdm", "trange", "track", "alive_it", "progress", "progressbar", "ProgressBar", "Progbar", "log_every"),
    *("enumerate", "zip", "iter", "next", "cycle", "islice", "chain", "from_iterable", "map", "filter"),
    *("dict", "list", "tuple", "copy", "deepcopy", "values", "items", "get", "pop"),
    *("prepare", "prepare_data_loader", "setup_dataloaders", "ParallelLoader", "MpDeviceLoader", "per_device_loader"),
}
"""
Calls whose result gives what their arguments, or the object before the dot, give.
"""

STARTING = {
    *("iter", "enumerate", "zip", "list", "tuple", "set", "dict", "sorted", "next", "sum", "max", "min", "any", "all"),
    *("map", "filter", "cycle", "islice", "deque", "Counter", "reduce", "fsum"),
}
"""
Calls that ask their argument for an iterator at once, which starts its workers.
"""

COLLECTING = {"append", "add", "extend", "insert", "update", "setdefault"}
"""
Methods that put what they are given into their object.
"""

RUNNERS = {
    *("Fire", "run", "spawn", "launch", "start_processes", "optimize", "agent", "submit", "run_until_complete"),
    *("notebook_launcher", "debug_launcher", "elastic_launch", "run_main", "main"),
}
"""
Calls that call the function which they are given.
"""

LOOPS = re.compile(
    r"(run|fit|train|test|eval|evaluate|validate|valid|val|predict|inference)(_|$)(?!.*(split|dataloader))"
)
"""
Names of functions that iterate over the loader which they are given: Lightning's, Ignite's and everybody's.
"""

HOOKS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader", "get_train_dataloader")
"""
Methods from which Lightning and transformers take loaders.
"""
