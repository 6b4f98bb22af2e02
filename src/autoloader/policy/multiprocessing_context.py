"""
Chooses the start method of worker processes.
"""

from typing import Any

from ..facts import HostFacts, ProcessFacts
from ..plan import Choice, LoaderRequest
from .fixed import fixed_choice

NAME = "multiprocessing_context"


def choose_multiprocessing_context(facts: HostFacts, request: LoaderRequest) -> Choice[Any]:
    """
    Choose how workers start.

    The process's own choice stands, and so does a default of fork, which is what a plain DataLoader uses. Where
    the default is another method, as on Linux since Python 3.14, fork is used while the process is quiet: it needs
    no import of the main module, and takes datasets that cannot be pickled. macOS is never forked: its system
    libraries do not survive it (CPython issue 77906).
    """
    fixed = fixed_choice(NAME, request)
    if fixed is not None:
        return fixed
    methods = facts.start_methods
    if methods.in_force is not None:
        because = f"the start method of this process is set to {methods.in_force} already"
        return Choice(value=methods.in_force, rule=f"{NAME}.set-by-process", because=because)
    may_fork = "fork" in methods.available and facts.system.platform != "macos"
    if methods.default != "fork" and may_fork and is_quiet(facts.process):
        because = "no thread and no accelerator is in use in this process, so fork is safe"
        return Choice(value="fork", rule=f"{NAME}.quiet-process", because=because)
    because = f"Python's default on this system is {methods.default or 'not known'}"
    return Choice(value=methods.default, rule=f"{NAME}.process-default", because=because)


def is_quiet(process: ProcessFacts) -> bool:
    """
    Return whether this process has nothing that a forked child could find half-done: no thread, no accelerator.
    """
    return process.other_threads == 0 and process.is_accelerator_initialised is False


def method_name(value: Any) -> str | None:
    """
    Return the start method behind the value of ``multiprocessing_context``: its name, or a context object's.
    """
    return value if value is None or isinstance(value, str) else value.get_start_method()
