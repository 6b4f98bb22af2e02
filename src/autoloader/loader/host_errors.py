"""
What an error that comes back instead of a batch has to do with the host, and the limits that matter then.
"""

import errno
import re
from collections.abc import Callable
from typing import NamedTuple

from ..facts import HostFacts, LimitFacts, MemoryFacts, SharedMemoryFacts
from ..findings import describe
from ..policy.limits import size_text
from ..records import NO_LIMIT

OPEN_FILES_TO_ASK_FOR = 8192

_NOT_RECEIVED = "A batch could not be passed on"


class _Said(NamedTuple):
    """
    What an error says, wherever it was raised first: its type, its number, and its message.
    """

    is_os_error: bool
    is_runtime_error: bool
    number: int | None
    windows_number: int | None
    message: str


class Situation(NamedTuple):
    """
    The host when something went wrong, as the explanations need it.
    """

    now: HostFacts
    num_workers: int

    @property
    def fewer(self) -> str:
        """
        Return the advice to take half the workers.
        """
        return f"num_workers={self.num_workers // 2} instead of {self.num_workers}"


def explain_error(error: BaseException, now: HostFacts, *, num_workers: int) -> str | None:
    """
    Return what an error has to do with the host, and what to do; ``None`` for every other error.

    An error of the dataset's own is never explained, except that it found too many files open; without workers, all are
    the dataset's own.

    Args:
        error: What the inner loader raised: torch's own, or a worker's with its traceback inside.
        now: What :func:`autoloader.probe.probe_memory` reads after it.
        num_workers: The number of workers.
    """
    if num_workers < 1:
        return None
    if _is_of_receiving(error):
        return describe("worker.batch-lost", error=f"{type(error).__name__}: {error}".rstrip(": "))
    said, situation = _read(error), Situation(now, num_workers)
    found = (explain(said, situation) for explain in _EXPLANATIONS)
    return next((text for text in found if text is not None), None)


def _read(error: BaseException) -> _Said:
    """
    Read an error; torch raises a worker's anew with the traceback as its text, and without its number.

    Source: torch/_utils.py, ``ExceptionWrapper.reraise``.
    """
    text = str(error)
    first = re.match(r"Caught (\w+) [^\n]*\.\nOriginal Traceback \(most recent call last\):\n", text)
    if first is None:
        number, windows_number = getattr(error, "errno", None), getattr(error, "winerror", None)
        is_os_error, is_runtime_error = isinstance(error, OSError), isinstance(error, RuntimeError)
    else:
        text = _last_message(text[first.end() :])
        is_os_error, is_runtime_error = first[1] == "OSError", first[1] == "RuntimeError"
        number, windows_number = _number(r"\[Errno (\d{1,9})\]", text), None
    if windows_number is None:
        windows_number = _number(r"\[WinError (\d{1,9})\]", text)
    return _Said(is_os_error, is_runtime_error, number, windows_number, text)


def _is_of_receiving(error: BaseException) -> bool:
    """
    Return whether a sender went away while torch fetched a tensor from it: its socket is closed, or gone.
    """
    trace = error.__traceback__ if isinstance(error, (ConnectionError, FileNotFoundError, EOFError)) else None
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "torch.multiprocessing.reductions":
            return True
        trace = trace.tb_next
    return False


def _last_message(traceback: str) -> str:
    """
    Return the message that stands below the last frame of a traceback.
    """
    last = traceback.rpartition('\n  File "')[2]
    match = re.search(r"^[A-Za-z_][\w.]*: (.*)", last, re.MULTILINE | re.DOTALL)
    return "" if match is None else match[1].rstrip()


def _number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return None if match is None else int(match[1])


def _explain_open_files(said: _Said, situation: Situation) -> str | None:
    numbers = {said.number if said.is_os_error else None, _torch_number(said)}
    if errno.ENFILE in numbers:
        return describe("worker.open-files-of-host")
    by_torch = r"Too many open files\. Communication with the|received \d+ items of ancdata"
    if errno.EMFILE not in numbers and not (said.is_runtime_error and re.match(by_torch, said.message)):
        return None
    limits = situation.now.limits
    return describe("worker.open-files", limits=files_text(limits), raised=_raised_text(limits))


def _explain_shared_memory(said: _Said, situation: Situation) -> str | None:
    """
    Explain that shared memory is full or gone.
    """
    shared, number = situation.now.shared_memory, _torch_number(said)
    if number == errno.ENOMEM:
        memory = memory_text(situation.now.memory)
        return describe("worker.memory-refused", memory=memory, fewer=situation.fewer)
    if number == errno.ENOENT:
        return describe("worker.shared-memory-gone", folder=shared.path or "it")
    is_there = said.is_os_error and said.number == errno.ENOSPC and _names_shared_memory(said.message, shared)
    if number != errno.ENOSPC and not is_there:
        return None
    evidence = {"what": _NOT_RECEIVED, "shared": shared_text(shared), "fewer": situation.fewer}
    return describe("worker.shared-memory-full", **evidence)


def _torch_number(said: _Said) -> int | None:
    """
    Return the number of the system's error that torch's own text on shared memory ends with; "full" without one.

    Source: torch, aten/src/ATen/MapAllocator.cpp.
    """
    is_torchs = re.match(
        r"unable to (?:(?:write to|resize|stretch|open|stat the) file </torch_|open shared memory object <"
        r"|allocate shared memory\(shm\)|mmap \d+ bytes from file <(?:/torch_|filename not specified))",
        said.message,
    )
    if is_torchs is None or not said.is_runtime_error:
        return None
    number = _number(r"\((\d{1,4})\)\s*(?:\n|$)", said.message)
    return errno.ENOSPC if number is None else number


def _names_shared_memory(message: str, shared: SharedMemoryFacts) -> bool:
    return "'/torch_" in message or (shared.path is not None and f"'{shared.path}/" in message)


def _explain_windows(said: _Said, situation: Situation) -> str | None:
    """
    Explain that Windows has no memory to promise, or cannot load a DLL.

    Source: Microsoft, "System Error Codes": 8 not enough memory, 14 out of memory, 1114 a DLL's start failed, 1450 no
    system resources, 1455 commitment limit, 1816 not enough quota. Torch, c10/core/impl/alloc_cpu.cpp, and
    MapAllocator.cpp, where the number stands in angles.
    """
    number = said.windows_number if said.is_os_error else None
    is_refused = said.is_runtime_error and "DefaultCPUAllocator: not enough memory: you tried" in said.message
    if said.is_runtime_error:
        number = _number(r"Couldn't [^<\n]*<torch_[^>]*>, error code: <(\d{1,9})>", said.message)
    if number == 1114:
        return describe("worker.library-not-loaded", what=f"{_NOT_RECEIVED} (WinError 1114)", fewer=situation.fewer)
    if number not in {8, 14, 1450, 1455, 1816} and not is_refused:
        return None
    what = _NOT_RECEIVED if number is None else f"{_NOT_RECEIVED} (WinError {number})"
    memory = memory_text(situation.now.memory)
    return describe("worker.commit-limit", what=what, memory=memory, fewer=situation.fewer)


def _explain_pin_thread(said: _Said, situation: Situation) -> str | None:
    if not said.is_runtime_error or said.message != "Pin memory thread exited unexpectedly":
        return None
    return describe("worker.pin-thread", limits=files_text(situation.now.limits))


def _explain_socket_path(said: _Said, situation: Situation) -> str | None:
    if not said.is_os_error or said.message != "AF_UNIX path too long":
        return None
    folder = situation.now.limits.temp_dir
    return describe("worker.socket-path", folder="" if folder is None else f" {folder}")


_EXPLANATIONS: tuple[Callable[[_Said, Situation], str | None], ...] = (
    _explain_open_files,
    _explain_shared_memory,
    _explain_windows,
    _explain_pin_thread,
    _explain_socket_path,
)


def memory_text(memory: MemoryFacts) -> str:
    """
    Return what is known of memory now, in brackets; nothing where nothing is known.
    """
    limit, used = memory.cgroup_limit_bytes, memory.cgroup_usage_bytes
    total, available = memory.total_bytes, memory.available_bytes
    parts = []
    if limit is not None and limit < NO_LIMIT:
        use = "" if used is None else f" and now holds {size_text(used)}"
        parts.append(f"its control group may hold {size_text(limit)}{use}")
    if available is not None:
        of_host = "of the host's memory" if total is None else f"of the host's {size_text(total)}"
        parts.append(f"{size_text(available)} {of_host} is free now")
    elif total is not None:
        parts.append(f"the host has {size_text(total)}")
    return f" ({'; '.join(parts)})" if parts else ""


def shared_text(shared: SharedMemoryFacts) -> str:
    """
    Return what is known of shared memory now, in brackets; nothing where nothing is known.
    """
    size, free = shared.size_bytes, shared.free_bytes
    parts = [] if size is None else [f"has {size_text(size)}"]
    if free is not None:
        parts.append(f"{'' if parts else 'has '}{size_text(free)} {'of it ' if parts else ''}free now")
    return f" ({shared.path or 'it'} {', '.join(parts)})" if parts else ""


def files_text(limits: LimitFacts) -> str:
    """
    Return what is known of open files now, in brackets; nothing where nothing is known.
    """
    soft, used = limits.open_files_soft, limits.open_files_now
    parts = [] if soft is None or soft == NO_LIMIT else [f"a process may have {soft:.0f}"]
    if used is not None:
        parts.append(f"this one has {used} now")
    return f" ({', '.join(parts)})" if parts else ""


def _raised_text(limits: LimitFacts) -> str:
    """
    Return how to raise the limit of open files, which the hard limit may forbid.
    """
    soft = 0 if limits.open_files_soft in {None, NO_LIMIT} else limits.open_files_soft or 0
    wanted, hard = max(OPEN_FILES_TO_ASK_FOR, 4 * soft), limits.open_files_hard
    allowed = wanted if hard is None else min(wanted, hard)
    if allowed <= soft:
        return "Have the limit raised (/etc/security/limits.conf; Docker: --ulimit nofile=65536:65536)"
    return f"Raise the limit before training (ulimit -n {allowed:.0f})"
