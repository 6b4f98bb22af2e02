"""
What a worker's exit code says: a signal, a status of Windows, or what the worker itself gave.
"""

import signal
from typing import Literal, NamedTuple

End = Literal[
    "kill",
    "bus-error",
    "segmentation-fault",
    "illegal-instruction",
    "stack-overflow",
    "commit-limit",
    "aborted",
    "library-not-loaded",
    "crashed",
    "cpu-time",
    "exited",
    "unhandled-signal",
    "stopped",
    "exited-quietly",
    "exit-unknown",
]
"""
The ways in which a worker ends, the most telling first: the others are often its consequences.
"""


class Exit(NamedTuple):
    """
    One exit code, read.
    """

    end: End
    """The way in which the worker ended."""
    name: str
    """The name of the signal or of the status; the number where it has none."""
    text: str
    """How the worker ended, to follow its name: ``was killed by SIGKILL (signal 9)``."""
    counted: str
    """The same, to follow a number of workers: ``by SIGKILL``."""
    detail: str = ""
    """What is known of this signal or status beyond its end: where it comes from, or what it means."""


class _Meaning(NamedTuple):
    name: str
    end: End
    detail: str = ""


_SIGNALS = {
    each.name: each
    for each in (
        _Meaning("SIGKILL", "kill"),
        _Meaning("SIGBUS", "bus-error"),
        _Meaning("SIGSEGV", "segmentation-fault"),
        _Meaning("SIGILL", "illegal-instruction"),
        _Meaning("SIGABRT", "aborted"),
        _Meaning("SIGXCPU", "cpu-time"),
        _Meaning("SIGTERM", "stopped", "a batch system, the stop of a container, 'kill' or terminate()"),
        _Meaning("SIGINT", "stopped", "Ctrl-C or the interrupt of a notebook"),
        _Meaning("SIGHUP", "stopped", "a terminal or a remote session that was closed"),
        _Meaning("SIGQUIT", "stopped", "Ctrl-\\ in the terminal, or a container's or service's stop"),
        _Meaning("SIGUSR1", "unhandled-signal", "a batch system that warns the processes of a job (Slurm: --signal)"),
        _Meaning("SIGUSR2", "unhandled-signal", "a batch system that warns the processes of a job (Slurm: --signal)"),
        _Meaning("SIGALRM", "unhandled-signal", "a timer that ran out (signal.alarm, signal.setitimer)"),
        _Meaning("SIGVTALRM", "unhandled-signal", "a timer that ran out (signal.setitimer)"),
        _Meaning("SIGPROF", "unhandled-signal", "a timer that ran out, a profiler's for one (signal.setitimer)"),
        _Meaning("SIGFPE", "crashed", "native code divided a whole number by zero"),
        _Meaning("SIGTRAP", "crashed", "native code ran into a breakpoint or a check that was compiled into it"),
        _Meaning("SIGSYS", "crashed", "a sandbox (seccomp) forbids a system call that it made"),
        _Meaning("SIGPIPE", "crashed", "native code wrote to a pipe or socket whose other end is closed"),
        _Meaning("SIGXFSZ", "crashed", "it wrote a file larger than allowed (ulimit -f)"),
    )
}

_USUAL_NUMBERS = dict(
    enumerate(
        (
            *("SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1"),
            *("SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP"),
            *("SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH"),
            *("SIGIO", "SIGPWR", "SIGSYS"),
        ),
        start=1,
    )
)
"""
Linux's numbers, for systems whose Python knows fewer signals. Source: signal(7), "Signal numbering", x86 and ARM.
"""

_STATUSES = {
    0xC0000005: _Meaning("access violation", "segmentation-fault"),
    0xC0000006: _Meaning("in-page error", "bus-error"),
    0xC0000017: _Meaning("no memory", "commit-limit"),
    0xC000001D: _Meaning("illegal instruction", "illegal-instruction"),
    0xC000007B: _Meaning("invalid image format", "library-not-loaded"),
    0xC0000094: _Meaning("integer divide by zero", "crashed", "native code divided a whole number by zero"),
    0xC000009A: _Meaning("insufficient resources", "commit-limit"),
    0xC00000FD: _Meaning("stack overflow", "stack-overflow"),
    0xC000012D: _Meaning("commitment limit", "commit-limit"),
    0xC0000135: _Meaning("DLL not found", "library-not-loaded"),
    0xC0000138: _Meaning("ordinal not found", "library-not-loaded"),
    0xC0000139: _Meaning("entry point not found", "library-not-loaded"),
    0xC000013A: _Meaning("control-C exit", "stopped", "Ctrl-C or a console window that was closed"),
    0xC0000142: _Meaning("DLL initialisation failed", "library-not-loaded"),
    0xC000026B: _Meaning("DLL initialisation failed at log-off", "stopped", "a log-off or shutdown of Windows"),
    0xC0000374: _Meaning("heap corruption", "aborted"),
    0xC0000409: _Meaning("stack buffer overrun, or abort", "aborted"),
    0xC0000420: _Meaning("assertion failure", "aborted"),
    0xC06D007E: _Meaning("module not found", "library-not-loaded"),
    0xC06D007F: _Meaning("procedure not found", "library-not-loaded"),
    0xE06D7363: _Meaning("C++ exception", "aborted"),
    0x40000015: _Meaning("fatal exit of an application", "aborted"),
    0x40010004: _Meaning("terminated by a debugger", "stopped", "a debugger, a log-off or a shutdown of Windows"),
    0x40010005: _Meaning("control-C of a debugger", "stopped", "Ctrl-C"),
    0x80000003: _Meaning("breakpoint", "crashed", "native code ran into a breakpoint that was compiled into it"),
}
"""
Statuses with which Windows ends a process.

Source: Microsoft, [MS-ERREF], 2.3.1 "NTSTATUS Values"; Visual C++, delayimp.h (0xC06D....) and its exception code.
"""

_LARGEST_SIGNAL = 64


def read_exit(exit_code: int | None) -> Exit:
    """
    Return what an exit code says.

    Args:
        exit_code: As multiprocessing gives it: a signal is negative, ``None`` is unknown. A status of Windows may come
            with or without a sign.
    """
    if exit_code is None:
        return Exit("exit-unknown", "unknown", "ended", "in an unknown way")
    status = _status(exit_code)
    if status is not None:
        return _ended(status)
    if exit_code < 0:
        return _killed(-exit_code)
    end: End = "exited" if exit_code else "exited-quietly"
    return Exit(end, str(exit_code), f"ended with exit code {exit_code}", f"with exit code {exit_code}")


def signal_name(number: int) -> str:
    """
    Return the name of a signal on this system; ``signal 40`` where it has none.
    """
    names = {each.value: each.name for each in signal.Signals if each.name.startswith("SIG")}  # no event of Windows'
    return names.get(number) or _USUAL_NUMBERS.get(number, f"signal {number}")


def _killed(number: int) -> Exit:
    name = signal_name(number)
    shown = name if name.startswith("signal ") else f"{name} (signal {number})"
    meaning = _SIGNALS.get(name, _Meaning(name, "crashed"))
    return Exit(meaning.end, name, f"was killed by {shown}", f"by {name}", meaning.detail)


def _ended(status: int) -> Exit:
    code, meaning = f"0x{status:08X}", _STATUSES.get(status)
    if meaning is None:
        return Exit("crashed", code, f"ended with exit code {code}", f"with {code}")
    text = f"ended with exit code {code} ({meaning.name})"
    return Exit(meaning.end, meaning.name, text, f"with {code}", meaning.detail)


def _status(exit_code: int) -> int | None:
    """
    Return the exit code as a status of Windows, without a sign; ``None`` where it is none.

    No other system has exit codes above 255, and on Windows, programs that choose their own keep them small.
    """
    unsigned = exit_code & 0xFFFFFFFF if exit_code < -_LARGEST_SIGNAL else exit_code
    return unsigned if unsigned in _STATUSES or 0xC0000000 <= unsigned <= 0xCFFFFFFF else None
