"""
What a worker's death means: one text with how it ended, the limits that matter, and what to do.

Nothing here asks the host; its facts are arguments, as :func:`autoloader.probe.probe_memory` reads them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from ..facts import HostFacts, MemoryFacts
from ..findings import describe
from .exit_codes import End, Exit, read_exit
from .host_errors import Situation, explain_error, memory_text, shared_text

__all__ = ["Death", "Explanation", "explain_deaths", "explain_error"]

LITTLE_FREE_FRACTION = 0.1
"""
What is free of memory, or of shared memory, where it counts as short.
"""

SMALL_SHARED_MEMORY_BYTES = 1 << 30
"""
The size up to which shared memory counts as small. Containers get 64 MiB; a host gives half of its memory.
"""

FORK_SERVER_LOST = 255
"""
What a process of the fork server's "ended with" when the server went first.

Source: CPython, Lib/multiprocessing/popen_forkserver.py, ``poll``.
"""


class Death(NamedTuple):
    """
    The end of one worker.
    """

    pid: int | None
    """Its process number; ``None`` where nobody knows."""
    exit_code: int | None
    """As multiprocessing gives it: a signal is negative, ``None`` is unknown."""
    had_served: bool
    """Whether any worker of the same start had delivered a batch."""


class Explanation(NamedTuple):
    """
    Why workers died, as far as it can be told.
    """

    finding: str
    """The id of the finding."""
    text: str
    """What happened, because of which facts, and what to do."""
    is_memory: bool
    """Whether fewer workers may help."""


class _Case(NamedTuple):
    """
    What the explanation of one kind of end draws from.
    """

    died: str
    exit: Exit
    death: Death
    method: str | None
    before: MemoryFacts | None
    situation: Situation

    @property
    def memory(self) -> MemoryFacts:
        return self.situation.now.memory

    @property
    def fewer(self) -> str:
        return self.situation.fewer

    @property
    def other_method(self) -> str:
        """
        Return what to try where a crash needs a worker.
        """
        return "multiprocessing_context='spawn'" if self.method == "fork" else "another version of the library"

    @property
    def forked(self) -> str:
        """
        Return what more is to be said of a crash in a worker that was forked.
        """
        return "; a library that was in use before the fork often fails after it" if self.method == "fork" else ""


def explain_deaths(
    deaths: Sequence[Death],
    *,
    num_workers: int,
    method: str | None,
    indices: str,
    before: MemoryFacts | None,
    now: HostFacts,
) -> Explanation:
    """
    Return why workers died: the most telling death leads, and the others are counted.

    Args:
        deaths: Those that ended without being asked to; without any, only that one did is known.
        num_workers: How many workers were started.
        method: The start method, ``None`` where it is not known.
        indices: The indices of the samples in the batch that was due, as text; empty without any.
        before: Memory when the workers started, to see what it counts since; ``None`` where it was not read.
        now: Memory, shared memory and limits after the deaths.
    """
    ends = sorted((_order(death), place) for place, death in enumerate(deaths))
    lead = deaths[ends[0][1]] if ends else Death(pid=None, exit_code=None, had_served=True)
    others = [deaths[place] for _, place in ends[1:]]
    found = read_exit(lead.exit_code)
    died = f"{_name(lead)} {found.text}{_when(lead, indices)}{_others_text(others)}"
    return _EXPLAIN[found.end](_Case(died, found, lead, method, before, Situation(now, num_workers)))


def _order(death: Death) -> int:
    return get_args(End).index(read_exit(death.exit_code).end)


def _name(death: Death) -> str:
    return "A worker process" if death.pid is None else f"Worker process {death.pid}"


def _when(death: Death, indices: str) -> str:
    if death.had_served:
        return f" when the batch of samples {indices} was due" if indices else ""
    return f" before the first batch{f', of samples {indices},' if indices else ''} had come"


def _others_text(others: Sequence[Death]) -> str:
    if not others:
        return ""
    counted = Counter(read_exit(death.exit_code).counted for death in others)
    ways = [f"{number} {how}" for how, number in counted.items()]
    told = f": {', '.join(ways)}" if len(counted) > 1 else f" {next(iter(counted))}"
    return f" ({len(others)} more died{told})"


def _kill(case: _Case) -> Explanation:
    """
    SIGKILL: what counts the kernel's out-of-memory kills is asked first.
    """
    kills, memory = _kills_since(case), memory_text(case.memory)
    if kills:
        counts = {"source": _counter(case.memory), "kills": _kills_text(kills)}
        text = describe("worker.out-of-memory", died=case.died, memory=memory, fewer=case.fewer, **counts)
        return Explanation("worker.out-of-memory", text, is_memory=True)
    if _is_memory_short(case.memory):
        text = describe("worker.memory-short", died=case.died, memory=memory, fewer=case.fewer)
        return Explanation("worker.memory-short", text, is_memory=True)
    evidence = _kill_evidence(case)
    text = describe("worker.killed", died=case.died, evidence=evidence, memory=memory, fewer=case.fewer)
    return Explanation("worker.killed", text, is_memory=kills is None)


def _kills_since(case: _Case) -> int | None:
    """
    Return the out-of-memory kills since the workers started; ``None`` where that is not known.
    """
    now, before = case.memory.oom_kills, None if case.before is None else case.before.oom_kills
    if not now:
        return now
    return None if before is None or before > now else now - before


def _kill_evidence(case: _Case) -> str:
    """
    Return what the kernel's count of out-of-memory kills says, for a death that may be another's work.
    """
    kills, now = _kills_since(case), case.memory.oom_kills
    if kills:
        return f"{_counter(case.memory)} counts {_kills_text(kills)} since the workers started"
    if kills == 0:
        counts = f"{_counter(case.memory)} counts no kill of it since workers started"
        return f"it was not the kernel's out-of-memory killer, as {counts}"
    if now:
        return f"whether it was one of the {_kills_text(now)} that {_counter(case.memory)} counts so far is not known"
    return "whether it was an out-of-memory kill is not to be seen from here"


def _counter(memory: MemoryFacts) -> str:
    return memory.sources.get("oom_kills", "the kernel")


def _kills_text(kills: int) -> str:
    return f"{kills} out-of-memory kill{'' if kills == 1 else 's'}"


def _is_memory_short(memory: MemoryFacts) -> bool:
    free = memory.headroom_bytes
    whole = memory.cgroup_limit_bytes if memory.bound_by == "cgroup_headroom_bytes" else memory.total_bytes
    return free is not None and whole is not None and free < whole * LITTLE_FREE_FRACTION


def _bus_error(case: _Case) -> Explanation:
    """
    SIGBUS: older versions of torch meet full shared memory so, newer ones raise an error.
    """
    memory, shared = case.situation.now.shared_memory, shared_text(case.situation.now.shared_memory)
    size, free = memory.size_bytes, memory.free_bytes
    is_small = size is not None and size <= SMALL_SHARED_MEMORY_BYTES
    if is_small or (size is not None and free is not None and free < size * LITTLE_FREE_FRACTION):
        text = describe("worker.shared-memory-full", what=case.died, shared=shared, fewer=case.fewer)
        return Explanation("worker.shared-memory-full", text, is_memory=True)
    text = describe("worker.bus-error", died=case.died, shared=shared)
    return Explanation("worker.bus-error", text, is_memory=False)


def _segmentation_fault(case: _Case) -> Explanation:
    text = describe("worker.segmentation-fault", died=case.died, forked=case.forked, method=case.other_method)
    return Explanation("worker.segmentation-fault", text, is_memory=False)


def _aborted(case: _Case) -> Explanation:
    text = describe("worker.aborted", died=case.died, forked=case.forked, method=case.other_method)
    return Explanation("worker.aborted", text, is_memory=False)


def _stack_overflow(case: _Case) -> Explanation:
    return Explanation("worker.stack-overflow", describe("worker.stack-overflow", died=case.died), is_memory=False)


def _illegal_instruction(case: _Case) -> Explanation:
    text = describe("worker.illegal-instruction", died=case.died)
    return Explanation("worker.illegal-instruction", text, is_memory=False)


def _cpu_time(case: _Case) -> Explanation:
    return Explanation("worker.cpu-time", describe("worker.cpu-time", died=case.died), is_memory=False)


def _stopped(case: _Case) -> Explanation:
    text = describe("worker.stopped", died=case.died, who=case.exit.detail)
    return Explanation("worker.stopped", text, is_memory=False)


def _unhandled_signal(case: _Case) -> Explanation:
    text = describe("worker.unhandled-signal", died=case.died, who=case.exit.detail, name=case.exit.name)
    return Explanation("worker.unhandled-signal", text, is_memory=False)


def _crashed(case: _Case) -> Explanation:
    meaning = f": {case.exit.detail}" if case.exit.detail else ""
    return Explanation("worker.crashed", describe("worker.crashed", died=case.died, meaning=meaning), is_memory=False)


def _commit_limit(case: _Case) -> Explanation:
    memory = memory_text(case.memory)
    text = describe("worker.commit-limit", what=case.died, memory=memory, fewer=case.fewer)
    return Explanation("worker.commit-limit", text, is_memory=True)


def _library_not_loaded(case: _Case) -> Explanation:
    text = describe("worker.library-not-loaded", what=case.died, fewer=case.fewer)
    return Explanation("worker.library-not-loaded", text, is_memory=True)


def _exited(case: _Case) -> Explanation:
    if case.death.exit_code == FORK_SERVER_LOST and case.method == "forkserver":
        text = describe(
            "worker.fork-server-died", died=case.died, evidence=_kill_evidence(case), memory=memory_text(case.memory)
        )
        return Explanation("worker.fork-server-died", text, is_memory=bool(_kills_since(case)))
    if not case.death.had_served and case.method != "fork":
        starts = "starts anew" if case.method is None else f"starts by {case.method}"
        text = describe("worker.failed-to-start", died=case.died, starts=starts)
        return Explanation("worker.failed-to-start", text, is_memory=False)
    return Explanation("worker.exited", describe("worker.exited", died=case.died), is_memory=False)


def _exited_quietly(case: _Case) -> Explanation:
    return Explanation("worker.exited-quietly", describe("worker.exited-quietly", died=case.died), is_memory=False)


def _exit_unknown(case: _Case) -> Explanation:
    return Explanation("worker.exit-unknown", describe("worker.exit-unknown", died=case.died), is_memory=False)


_EXPLAIN: dict[End, Callable[[_Case], Explanation]] = {
    "kill": _kill,
    "bus-error": _bus_error,
    "segmentation-fault": _segmentation_fault,
    "illegal-instruction": _illegal_instruction,
    "stack-overflow": _stack_overflow,
    "commit-limit": _commit_limit,
    "aborted": _aborted,
    "library-not-loaded": _library_not_loaded,
    "crashed": _crashed,
    "cpu-time": _cpu_time,
    "exited": _exited,
    "unhandled-signal": _unhandled_signal,
    "stopped": _stopped,
    "exited-quietly": _exited_quietly,
    "exit-unknown": _exit_unknown,
}
