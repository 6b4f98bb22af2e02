"""
What is said when a worker died.

Exit codes follow signal(7), CPython's Lib/multiprocessing (popen_fork.py, popen_forkserver.py, popen_spawn_win32.py)
and Microsoft's [MS-ERREF].
"""

from typing import Any

import pytest

from autoloader.facts import HostFacts, MemoryFacts, SharedMemoryFacts
from autoloader.loader.diagnosis import Death, Explanation, explain_deaths
from autoloader.loader.exit_codes import read_exit, signal_name

MIB, GIB = 1 << 20, 1 << 30
EVENTS = "/sys/fs/cgroup/memory.events"

NOW = HostFacts(
    memory=MemoryFacts(
        total_bytes=64 * GIB,
        available_bytes=40 * GIB,
        cgroup_limit_bytes=4.0 * GIB,
        cgroup_headroom_bytes=1.0 * GIB,
        cgroup_usage_bytes=3 * GIB,
        headroom_bytes=1.0 * GIB,
        bound_by="cgroup_headroom_bytes",
        oom_kills=2,
        sources={"oom_kills": EVENTS},
    ),
    shared_memory=SharedMemoryFacts(path="/dev/shm", size_bytes=32 * GIB, free_bytes=30 * GIB, is_writable=True),
)
"""
A host on which nothing is short: a control group of 4 GiB holds 3, and two processes were killed there before.
"""

UNKNOWN = HostFacts()


def change(group: str, **values: Any) -> HostFacts:
    """
    Return the host with some facts changed.
    """
    return NOW._replace(**{group: getattr(NOW, group)._replace(**values)})


def explain(*exit_codes: int | None, now: HostFacts = NOW, had_served: bool = True, **arguments: Any) -> Explanation:
    """
    Return what is said of workers 71, 72, ... that ended with these codes, four of them forked.
    """
    deaths = [Death(pid, code, had_served) for pid, code in enumerate(exit_codes, start=71)]
    known = {"num_workers": 4, "method": "fork", "indices": "[5, 6]", "before": now.memory, **arguments}
    return explain_deaths(deaths, now=now, **known)


@pytest.mark.parametrize(
    ("exit_code", "finding", "is_memory"),
    [
        pytest.param(-9, "worker.killed", False, id="SIGKILL"),
        pytest.param(-7, "worker.bus-error", False, id="SIGBUS"),
        pytest.param(-11, "worker.segmentation-fault", False, id="SIGSEGV"),
        pytest.param(-6, "worker.aborted", False, id="SIGABRT"),
        pytest.param(-15, "worker.stopped", False, id="SIGTERM"),
        pytest.param(-2, "worker.stopped", False, id="SIGINT"),
        pytest.param(-1, "worker.stopped", False, id="SIGHUP"),
        pytest.param(-3, "worker.stopped", False, id="SIGQUIT"),
        pytest.param(-10, "worker.unhandled-signal", False, id="SIGUSR1"),
        pytest.param(-12, "worker.unhandled-signal", False, id="SIGUSR2"),
        pytest.param(-14, "worker.unhandled-signal", False, id="SIGALRM"),
        pytest.param(-24, "worker.cpu-time", False, id="SIGXCPU"),
        pytest.param(-4, "worker.illegal-instruction", False, id="SIGILL"),
        pytest.param(-8, "worker.crashed", False, id="SIGFPE"),
        pytest.param(-5, "worker.crashed", False, id="SIGTRAP"),
        pytest.param(-13, "worker.crashed", False, id="SIGPIPE"),
        pytest.param(-31, "worker.crashed", False, id="SIGSYS"),
        pytest.param(-40, "worker.crashed", False, id="real-time-signal"),
        pytest.param(1, "worker.exited", False, id="exit-1"),
        pytest.param(3, "worker.exited", False, id="exit-3"),
        pytest.param(255, "worker.exited", False, id="exit-255"),
        pytest.param(4294967295, "worker.exited", False, id="exit-minus-1-on-windows"),
        pytest.param(0, "worker.exited-quietly", False, id="exit-0"),
        pytest.param(None, "worker.exit-unknown", False, id="unknown"),
        pytest.param(0xC0000005, "worker.segmentation-fault", False, id="access-violation"),
        pytest.param(-1073741819, "worker.segmentation-fault", False, id="access-violation-signed"),
        pytest.param(0xC0000006, "worker.bus-error", False, id="in-page-error"),
        pytest.param(0xC0000017, "worker.commit-limit", True, id="no-memory"),
        pytest.param(0xC000009A, "worker.commit-limit", True, id="insufficient-resources"),
        pytest.param(0xC000012D, "worker.commit-limit", True, id="commitment-limit"),
        pytest.param(-1073741523, "worker.commit-limit", True, id="commitment-limit-signed"),
        pytest.param(0xC00000FD, "worker.stack-overflow", False, id="stack-overflow"),
        pytest.param(0xC000001D, "worker.illegal-instruction", False, id="illegal-instruction"),
        pytest.param(0xC0000135, "worker.library-not-loaded", True, id="dll-not-found"),
        pytest.param(0xC0000139, "worker.library-not-loaded", True, id="entry-point-not-found"),
        pytest.param(0xC0000142, "worker.library-not-loaded", True, id="dll-init-failed"),
        pytest.param(0xC000007B, "worker.library-not-loaded", True, id="invalid-image"),
        pytest.param(0xC06D007E, "worker.library-not-loaded", True, id="delay-load"),
        pytest.param(0xC0000409, "worker.aborted", False, id="stack-buffer-overrun"),
        pytest.param(0xC0000374, "worker.aborted", False, id="heap-corruption"),
        pytest.param(0xE06D7363, "worker.aborted", False, id="c++-exception"),
        pytest.param(0x40000015, "worker.aborted", False, id="fatal-exit"),
        pytest.param(0xC000013A, "worker.stopped", False, id="control-c"),
        pytest.param(0xC000026B, "worker.stopped", False, id="log-off"),
        pytest.param(0x40010004, "worker.stopped", False, id="debugger"),
        pytest.param(0xC0000094, "worker.crashed", False, id="divide-by-zero"),
        pytest.param(0x80000003, "worker.crashed", False, id="breakpoint"),
        pytest.param(0xC0001234, "worker.crashed", False, id="other-status"),
    ],
)
def test_death_with_each_exit_code_has_its_finding(exit_code: int | None, finding: str, is_memory: bool) -> None:
    """
    Every signal, exit code and status of Windows has a finding; only lack of memory calls for fewer workers.
    """
    found = explain(exit_code)
    assert (found.finding, found.is_memory) == (finding, is_memory)


WHEN = "when the batch of samples [5, 6] was due"
MEMORY = "(its control group may hold 4 GiB and now holds 3 GiB; 40 GiB of the host's 64 GiB is free now)"
CALLS = "the dataset, the collate_fn and the worker_init_fn"
FAULTHANDLER = "pass num_workers=0 once and start 'python -X faulthandler'"


@pytest.mark.parametrize(
    ("exit_code", "arguments", "text"),
    [
        pytest.param(
            -9,
            {"before": NOW.memory._replace(oom_kills=1)},
            f"Worker process 71 was killed by SIGKILL (signal 9) {WHEN}: the kernel's out-of-memory killer did it, "
            f"{EVENTS} counts 1 out-of-memory kill since the workers started {MEMORY}. Pass num_workers=2 instead of "
            "4, a smaller batch_size or prefetch_factor=1, or allow more memory (Docker: --memory; Kubernetes: "
            "resources.limits.memory; Slurm: --mem).",
            id="out-of-memory",
        ),
        pytest.param(
            -9,
            {"now": change("memory", headroom_bytes=0.25 * GIB, cgroup_usage_bytes=3840 * MIB), "num_workers": 1},
            f"Worker process 71 was killed by SIGKILL (signal 9) {WHEN}, and memory is short (its control group may "
            "hold 4 GiB and now holds 3.75 GiB; 40 GiB of the host's 64 GiB is free now): most likely an out-of-memory "
            "killer did it, the kernel's or one like earlyoom, systemd-oomd or a batch system's. Pass num_workers=0 "
            "instead of 1, a smaller batch_size or prefetch_factor=1, or allow more memory (Docker: --memory; "
            "Kubernetes: resources.limits.memory; Slurm: --mem).",
            id="memory-short",
        ),
        pytest.param(
            -9,
            {},
            f"Worker process 71 was killed by SIGKILL (signal 9) {WHEN}: something sent it this signal, which no "
            f"process survives; it was not the kernel's out-of-memory killer, as {EVENTS} counts no kill of it since "
            f"workers started {MEMORY}. Look for who did: 'dmesg' and the journal name what an out-of-memory killer "
            "ended, and a batch system or container has a log of its own. If that was for memory, pass num_workers=2 "
            "instead of 4.",
            id="killed",
        ),
        pytest.param(
            -7,
            {"now": change("shared_memory", size_bytes=64 * MIB, free_bytes=3 * MIB)},
            f"Worker process 71 was killed by SIGBUS (signal 7) {WHEN}: shared memory, through which batches travel, "
            "is full or too small (/dev/shm has 64 MiB, 3 MiB of it free now). Give it more (Docker: --shm-size=8g or "
            "--ipc=host; Kubernetes: an emptyDir with medium: Memory at /dev/shm; elsewhere: mount -o remount,size=8g "
            "/dev/shm), or pass num_workers=2 instead of 4, prefetch_factor=1 or a smaller batch_size.",
            id="shared-memory-full",
        ),
        pytest.param(
            -7,
            {},
            f"Worker process 71 was killed by SIGBUS (signal 7) {WHEN}: behind an address that it used there was no "
            "memory. Either shared memory ran full (/dev/shm has 32 GiB, 30 GiB of it free now), or a file that is "
            "read through a memory map (numpy.memmap, mmap, LMDB, safetensors) became shorter or could not be read. "
            "See that nothing changes the data's files during training and that their disk is sound, or give shared "
            "memory more (Docker: --shm-size=8g).",
            id="bus-error",
        ),
        pytest.param(
            -11,
            {},
            f"Worker process 71 was killed by SIGSEGV (signal 11) {WHEN}: native code, a library's or torch's own, "
            "used memory that is not its own; a library that was in use before the fork often fails after it. The "
            "line of Python stands below, if the worker could still write it; num_workers=0 under 'python -X "
            "faulthandler' shows it in this process. If it happens in workers only, try "
            "multiprocessing_context='spawn'.",
            id="segmentation-fault-after-fork",
        ),
        pytest.param(
            0xC0000005,
            {"method": "spawn"},
            f"Worker process 71 ended with exit code 0xC0000005 (access violation) {WHEN}: native code, a library's or "
            "torch's own, used memory that is not its own. The line of Python stands below, if the worker could still "
            "write it; num_workers=0 under 'python -X faulthandler' shows it in this process. If it happens in workers "
            "only, try another version of the library.",
            id="access-violation",
        ),
        pytest.param(
            -15,
            {},
            f"Worker process 71 was killed by SIGTERM (signal 15) {WHEN}: this comes from outside, such as a batch "
            "system, the stop of a container, 'kill' or terminate(). Look at the log of what could have sent it, such "
            "as the job's time limit; start long runs where no terminal ends them (tmux, nohup, a batch job).",
            id="stopped",
        ),
        pytest.param(
            -14,
            {},
            f"Worker process 71 was killed by SIGALRM (signal 14) {WHEN}: a worker has no handler for it; it may come "
            "from a timer that ran out (signal.alarm, signal.setitimer). Ignore it in workers, by "
            "signal.signal(signal.SIGALRM, signal.SIG_IGN) in worker_init_fn, or see that only the training process "
            "gets it.",
            id="unhandled-signal",
        ),
        pytest.param(
            -8,
            {},
            f"Worker process 71 was killed by SIGFPE (signal 8) {WHEN}: native code divided a whole number by zero. "
            f"Read what stands on stderr, above; to see the line of Python, {FAULTHANDLER}.",
            id="crashed",
        ),
        pytest.param(
            -40,
            {"indices": ""},
            "Worker process 71 was killed by signal 40. Read what stands on stderr, above; to see the line of Python, "
            f"{FAULTHANDLER}.",
            id="signal-without-a-name",
        ),
        pytest.param(
            0xC000012D,
            {"now": UNKNOWN, "before": None},
            f"Worker process 71 ended with exit code 0xC000012D (commitment limit) {WHEN}: Windows promises no more "
            "than memory and page file hold, and each worker that imports torch has it promise up to 2.5 GiB, used or "
            "not. Enlarge the page file (System, Advanced, Performance, Virtual memory), close other programs, or pass "
            "num_workers=2 instead of 4.",
            id="commit-limit",
        ),
        pytest.param(
            1,
            {"method": "spawn", "had_served": False},
            "Worker process 71 ended with exit code 1 before the first batch, of samples [5, 6], had come: a worker "
            "that starts by spawn imports the script and its modules anew, unpickles the dataset, and calls "
            "worker_init_fn; one of these failed or ended it. Read its traceback on stderr, above. Keep what only the "
            "training process should do under 'if __name__ == \"__main__\":', and nothing outside of it that exits; "
            "num_workers=0 starts nothing.",
            id="failed-to-start",
        ),
        pytest.param(
            3,
            {},
            f"Worker process 71 ended with exit code 3 {WHEN}: an error that torch does not catch ended it, whose "
            "traceback stands on stderr, above, or code in it called sys.exit() or os._exit(). Mend what the traceback "
            f"says, or look for such a call in {CALLS}; num_workers=0 shows it in this process.",
            id="exited",
        ),
        pytest.param(
            0,
            {},
            f"Worker process 71 ended with exit code 0 {WHEN}: code in it called sys.exit() or os._exit(0), or "
            "something asked it to end (kill, kill -INT, or terminate() in this process). Look for such a call in "
            f"{CALLS}: an error is raised, and an IterableDataset ends by return. If there is none, look for who ends "
            "processes: a batch system, a time limit.",
            id="exited-quietly",
        ),
        pytest.param(
            None,
            {},
            f"Worker process 71 ended {WHEN}, how is not known: the system keeps no exit code where SIGCHLD is ignored "
            "or others wait for it. Look on stderr, above, for its last words. Leave SIGCHLD alone, and do not call "
            "os.wait() or os.waitpid(-1, 0) in this process, and the next error says more.",
            id="exit-unknown",
        ),
        pytest.param(
            255,
            {"method": "forkserver", "had_served": False, "before": NOW.memory._replace(oom_kills=0)},
            "Worker process 71 ended with exit code 255 before the first batch, of samples [5, 6], had come: "
            "multiprocessing says 255 where the fork server ended before the worker did, and a worker that calls "
            f"sys.exit(-1) ends so, too; {EVENTS} counts 2 out-of-memory kills since the workers started {MEMORY}. "
            "Look on stderr, above, and in 'dmesg' for what ended it, or do without a fork server: pass "
            "multiprocessing_context='spawn'.",
            id="fork-server-died",
        ),
    ],
)
def test_death_is_told_with_its_limits_and_the_fix(exit_code: int | None, arguments: dict[str, Any], text: str) -> None:
    """
    One text has the exit code or signal, the limits that matter, the likely cause, and what to do.
    """
    assert explain(exit_code, **arguments).text == text


@pytest.mark.parametrize(
    ("before", "after", "finding", "is_memory", "words"),
    [
        pytest.param(0, 3, "worker.out-of-memory", True, "counts 3 out-of-memory kills since", id="rose"),
        pytest.param(2, 2, "worker.killed", False, "as the kernel counts no kill of it since", id="stayed"),
        pytest.param(None, 0, "worker.killed", False, "as the kernel counts no kill of it since", id="none-ever"),
        pytest.param(
            None, 2, "worker.killed", True, "one of the 2 out-of-memory kills that the kernel", id="since-when"
        ),
        pytest.param(3, 2, "worker.killed", True, "one of the 2 out-of-memory kills that the kernel", id="other-group"),
        pytest.param(None, None, "worker.killed", True, "is not to be seen from here", id="unknown"),
        pytest.param(1, None, "worker.killed", True, "is not to be seen from here", id="unknown-now"),
    ],
)
def test_sigkill_is_lack_of_memory_only_if_the_kernel_counts_a_kill(
    before: int | None, after: int | None, finding: str, is_memory: bool, words: str
) -> None:
    """
    A count that rose is proof, one that did not speaks against it, and an unknown one leaves it open.
    """
    now = HostFacts(memory=MemoryFacts(oom_kills=after))
    found = explain(-9, now=now, before=MemoryFacts(oom_kills=before))
    assert (found.finding, found.is_memory) == (finding, is_memory)
    assert words in found.text


@pytest.mark.parametrize(
    ("memory", "finding"),
    [
        pytest.param({"headroom_bytes": 400.0 * MIB}, "worker.memory-short", id="group-nearly-full"),
        pytest.param({"headroom_bytes": 410.0 * MIB}, "worker.killed", id="group-not-full"),
        pytest.param(
            {"headroom_bytes": 6.0 * GIB, "bound_by": "available_bytes"}, "worker.memory-short", id="host-nearly-full"
        ),
        pytest.param({"headroom_bytes": 7.0 * GIB, "bound_by": "available_bytes"}, "worker.killed", id="host-not-full"),
        pytest.param({"headroom_bytes": None}, "worker.killed", id="unknown"),
        pytest.param({"headroom_bytes": 1.0, "cgroup_limit_bytes": None}, "worker.killed", id="limit-unknown"),
    ],
)
def test_sigkill_where_a_tenth_of_memory_is_free_is_likely_lack_of_it(memory: dict[str, Any], finding: str) -> None:
    """
    What is free is measured by the limit that binds: the group's or the host's.
    """
    assert explain(-9, now=change("memory", **memory)).finding == finding


@pytest.mark.parametrize(
    ("size", "free", "finding"),
    [
        pytest.param(64 * MIB, 64 * MIB, "worker.shared-memory-full", id="small-and-free-again"),
        pytest.param(32 * GIB, 3 * GIB, "worker.shared-memory-full", id="large-and-nearly-full"),
        pytest.param(32 * GIB, 4 * GIB, "worker.bus-error", id="large-and-free"),
        pytest.param(None, None, "worker.bus-error", id="unknown"),
        pytest.param(32 * GIB, None, "worker.bus-error", id="large-and-free-unknown"),
    ],
)
def test_sigbus_is_full_shared_memory_where_that_is_small_or_full(
    size: int | None, free: int | None, finding: str
) -> None:
    """
    What the worker held is free again after its death, so that a small size is reason enough.
    """
    now = change("shared_memory", size_bytes=size, free_bytes=free)
    assert explain(-7, now=now).finding == finding


@pytest.mark.parametrize("exit_code", [-9, -7, -11, 1, 0, None, 255, 0xC000012D, 0xC0000135])
@pytest.mark.parametrize("had_served", [True, False])
def test_death_on_a_host_that_tells_nothing_leaves_numbers_out(exit_code: int | None, had_served: bool) -> None:
    """
    What is not known is not said, neither as None nor as empty brackets.
    """
    found = explain(exit_code, now=UNKNOWN, before=None, had_served=had_served, indices="", method=None)
    for words in ("None", " ()", "  ", "unknown", " .", " :", " ,"):
        assert words not in found.text


def test_first_death_without_indices_says_that_no_batch_had_come() -> None:
    """
    An iterable-style dataset has no indices to name.
    """
    found = explain(-6, had_served=False, indices="", method="spawn")
    assert found.text.startswith("Worker process 71 was killed by SIGABRT (signal 6) before the first batch had come: ")


def test_start_that_is_not_known_is_a_start_anew() -> None:
    """
    Where the start method is not known, it is not named.
    """
    found = explain(1, had_served=False, method=None)
    assert found.finding == "worker.failed-to-start"
    assert "a worker that starts anew imports the script" in found.text


@pytest.mark.parametrize(
    ("exit_codes", "finding", "words"),
    [
        pytest.param(
            (-15, 1, -9),
            "worker.killed",
            "Worker process 73 was killed by SIGKILL (signal 9) when the batch of samples [5, 6] was due (2 more died: "
            "1 with exit code 1, 1 by SIGTERM): ",
            id="kill-before-its-consequences",
        ),
        pytest.param(
            (0, -11, -15, -15, None),
            "worker.segmentation-fault",
            "Worker process 72 was killed by SIGSEGV (signal 11) when the batch of samples [5, 6] was due (4 more "
            "died: 2 by SIGTERM, 1 with exit code 0, 1 in an unknown way): ",
            id="crash-before-the-rest",
        ),
        pytest.param(
            (1, 0xC0000142),
            "worker.library-not-loaded",
            "Worker process 72 ended with exit code 0xC0000142 (DLL initialisation failed) when the batch of samples "
            "[5, 6] was due (1 more died with exit code 1): ",
            id="status-before-exit",
        ),
        pytest.param(
            (-7, -7, -7),
            "worker.bus-error",
            "Worker process 71 was killed by SIGBUS (signal 7) when the batch of samples [5, 6] was due (2 more died "
            "by SIGBUS): ",
            id="all-alike",
        ),
    ],
)
def test_several_deaths_are_led_by_the_most_telling_one(
    exit_codes: tuple[int | None, ...], finding: str, words: str
) -> None:
    """
    One death is the cause and the others its consequences, which are counted.
    """
    found = explain(*exit_codes)
    assert found.finding == finding
    assert found.text.startswith(words)


def test_death_of_nobody_known_is_told_all_the_same() -> None:
    """
    Torch may say that a worker died without any being found dead.
    """
    found = explain()
    assert found.finding == "worker.exit-unknown"
    assert found.text.startswith("A worker process ended when the batch of samples [5, 6] was due, how is not known: ")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(9, "SIGKILL", id="known-or-usual"),
        pytest.param(40, "signal 40", id="real-time"),
        pytest.param(0, "signal 0", id="no-signal"),
        pytest.param(200, "signal 200", id="beyond-all"),
    ],
)
def test_signal_has_a_name_or_its_number(number: int, name: str) -> None:
    """
    A system that does not know a signal is no reason to say nothing.
    """
    assert signal_name(number) == name


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        pytest.param(-1073741819, "ended with exit code 0xC0000005 (access violation)", id="status-with-a-sign"),
        pytest.param(0xC0001234, "ended with exit code 0xC0001234", id="status-without-a-name"),
        pytest.param(256, "ended with exit code 256", id="windows-own"),
        pytest.param(None, "ended", id="unknown"),
    ],
)
def test_exit_code_is_read_as_text(exit_code: int | None, text: str) -> None:
    """
    A status of Windows is shown as people search for it.
    """
    assert read_exit(exit_code).text == text
