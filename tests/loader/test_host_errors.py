"""
What is said of an error that comes back instead of a batch and has to do with the host.

Error texts of torch were taken from torch 2.13 and 2.4 on Linux, those of Windows from pytorch/pytorch#31874, #18797
and ultralytics/yolov3#1643, those on memory maps from pytorch/pytorch#92134.
"""

import errno
from typing import Any

import pytest

from autoloader.facts import HostFacts, LimitFacts, MemoryFacts, SharedMemoryFacts
from autoloader.loader.diagnosis import explain_error

GIB = 1 << 30

NOW = HostFacts(
    memory=MemoryFacts(
        total_bytes=64 * GIB,
        available_bytes=40 * GIB,
        cgroup_limit_bytes=4.0 * GIB,
        cgroup_headroom_bytes=1.0 * GIB,
        cgroup_usage_bytes=3 * GIB,
        headroom_bytes=1.0 * GIB,
        bound_by="cgroup_headroom_bytes",
    ),
    shared_memory=SharedMemoryFacts(path="/dev/shm", size_bytes=32 * GIB, free_bytes=30 * GIB, is_writable=True),
    limits=LimitFacts(open_files_soft=1024.0, open_files_hard=4096.0, open_files_now=1020, temp_dir="/scratch/a/b"),
)
"""
A host on which only open files are short: a control group of 4 GiB holds 3.
"""

UNKNOWN = HostFacts()


def change(group: str, **values: Any) -> HostFacts:
    """
    Return the host with some facts changed.
    """
    return NOW._replace(**{group: getattr(NOW, group)._replace(**values)})


MEMORY = "(its control group may hold 4 GiB and now holds 3 GiB; 40 GiB of the host's 64 GiB is free now)"


def from_worker(kind: type[Exception], message: str, where: str = "in DataLoader worker process 0") -> Exception:
    """
    Return an error as torch raises it anew for a worker: without its number, the traceback as its text.
    """
    text = (
        f"Caught {kind.__name__} {where}.\nOriginal Traceback (most recent call last):\n"
        '  File "/venv/torch/utils/data/_utils/worker.py", line 384, in _worker_loop\n'
        "    data = fetcher.fetch(index)  # type: ignore[possibly-undefined]\n"
        "           ^^^^^^^^^^^^^^^^^^^^\n"
        '  File "/home/me/data.py", line 17, in __getitem__\n'
        "    return self.load(index)\n"
        f"{kind.__name__}: {message}\n"
    )
    return kind(text)


SHARED_FULL = (
    "A batch could not be passed on: shared memory, through which batches travel, is full or too small (/dev/shm has "
    "32 GiB, 30 GiB of it free now). Give it more (Docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with "
    "medium: Memory at /dev/shm; elsewhere: mount -o remount,size=8g /dev/shm), or pass num_workers=2 instead of 4, "
    "prefetch_factor=1 or a smaller batch_size."
)
OPEN_FILES = (
    "Too many files are open (a process may have 1024, this one has 1020 now): each tensor that came from a worker "
    "holds one as long as it is kept, and so does each file that the dataset leaves open. Raise the limit before "
    "training (ulimit -n 4096), keep copies instead of the tensors of a batch (tensor.clone()), and close in "
    "__getitem__ what it opens."
)
OPEN_FILES_OF_HOST = (
    "Too many files are open on this host, by all processes together (fs.file-max). "
    "Raise it (sysctl -w fs.file-max=2097152), or end what holds them: 'lsof | wc -l' counts."
)
REFUSED = (
    f"The system refused memory for a batch {MEMORY}: either it is short, or this process has as many memory maps as "
    "it may (vm.max_map_count, 65530 by default), of which each tensor that came from a worker holds one. Keep copies "
    "instead of the tensors of a batch (tensor.clone()), return fewer tensors a sample, raise the number (sysctl -w "
    "vm.max_map_count=262144), or pass num_workers=2 instead of 4."
)
GONE = (
    "The batch cannot be received: the shared memory that it lies in was removed, as happens when the worker that sent "
    "it has ended, or when something cleans /dev/shm. Leave torch's sharing strategy at 'file_descriptor', whose "
    "memory has no name that could be removed, and keep the workers until their last batch is taken."
)
PIN = (
    "The thread that copies batches into pinned memory has ended; its traceback stands on stderr, above. Most often "
    "too many files are open (a process may have 1024, this one has 1020 now), or a worker ended while its batch was "
    "on the way. Mend what the traceback says, or pass pin_memory=False, which needs no such thread."
)
SOCKET = (
    "The path of a socket is too long: processes talk through sockets in the temporary folder /scratch/a/b, and such a "
    "path has about 100 characters at most. Set TMPDIR to a shorter path before Python starts (export TMPDIR=/tmp), or "
    "pass num_workers=0."
)
COMMIT = (
    "A batch could not be passed on{}: Windows promises no more than memory and page file hold, and each worker that "
    f"imports torch has it promise up to 2.5 GiB, used or not {MEMORY}. Enlarge the page file (System, Advanced, "
    "Performance, Virtual memory), close other programs, or pass num_workers=2 instead of 4."
)
LIBRARY = (
    "A batch could not be passed on (WinError 1114): a DLL is missing, does not fit, or could not start. Install torch "
    "and the Visual C++ Redistributable anew; where the training process loads the same DLLs, memory is short: enlarge "
    "the page file, or pass num_workers=2 instead of 4."
)

FULL = "unable to allocate shared memory(shm) for file </torch_20359_3393580622_0>: No space left on device (28)"
MANY_BY_TORCH = (
    "Too many open files. Communication with the workers is no longer possible. Please increase the limit using "
    "`ulimit -n` in the shell or change the sharing strategy by calling "
    "`torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your code"
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(from_worker(RuntimeError, FULL), SHARED_FULL, id="shm-allocate"),
        pytest.param(RuntimeError(FULL), SHARED_FULL, id="shm-allocate-here"),
        pytest.param(
            from_worker(RuntimeError, "unable to write to file </torch_1_2_0>: No space left on device (28)"),
            SHARED_FULL,
            id="shm-write",
        ),
        pytest.param(
            RuntimeError("unable to write to file </torch_18522_1954506624>"), SHARED_FULL, id="shm-old-torch"
        ),
        pytest.param(
            RuntimeError(
                "unable to open shared memory object </torch_1_2_0> in read-write mode: No space left on device (28)"
            ),
            SHARED_FULL,
            id="shm-open",
        ),
        pytest.param(
            RuntimeError("unable to resize file </torch_1_2_0> to the right size: No space left on device (28)"),
            SHARED_FULL,
            id="shm-resize",
        ),
        pytest.param(
            OSError(errno.ENOSPC, "No space left on device", "/dev/shm/pymp-1/x"), SHARED_FULL, id="shm-of-python"
        ),
        pytest.param(
            from_worker(OSError, "[Errno 28] No space left on device: '/torch_7_1_0'"), SHARED_FULL, id="shm-enospc"
        ),
        pytest.param(
            RuntimeError(
                "unable to open shared memory object </torch_1_2_0> in read-write mode: Too many open files (24)"
            ),
            OPEN_FILES,
            id="files-shm-open",
        ),
        pytest.param(RuntimeError(MANY_BY_TORCH), OPEN_FILES, id="files-torch"),
        pytest.param(RuntimeError("received 0 items of ancdata"), OPEN_FILES, id="files-ancdata"),
        pytest.param(
            from_worker(RuntimeError, "received 0 items of ancdata", "in pin memory thread for device 0"),
            OPEN_FILES,
            id="files-ancdata-pinning",
        ),
        pytest.param(OSError(errno.EMFILE, "Too many open files"), OPEN_FILES, id="files-here"),
        pytest.param(
            from_worker(OSError, "[Errno 24] Too many open files: '/data/1.png'"), OPEN_FILES, id="files-in-a-worker"
        ),
        pytest.param(
            OSError(errno.ENFILE, "Too many open files in system"), OPEN_FILES_OF_HOST, id="files-of-the-host"
        ),
        pytest.param(
            from_worker(OSError, "[Errno 23] Too many open files in system"), OPEN_FILES_OF_HOST, id="files-of-all"
        ),
        pytest.param(
            RuntimeError("unable to mmap 2048 bytes from file <filename not specified>: Cannot allocate memory (12)"),
            REFUSED,
            id="too-many-maps",
        ),
        pytest.param(
            RuntimeError("unable to mmap 32 bytes from file </torch_239305_1669300387>: Cannot allocate memory (12)"),
            REFUSED,
            id="too-many-maps-by-name",
        ),
        pytest.param(
            RuntimeError(
                "unable to open shared memory object </torch_1_2_0> in read-write mode: No such file or directory (2)"
            ),
            GONE,
            id="shm-gone",
        ),
        pytest.param(RuntimeError("Pin memory thread exited unexpectedly"), PIN, id="pin-thread"),
        pytest.param(OSError("AF_UNIX path too long"), SOCKET, id="socket-path"),
        pytest.param(from_worker(OSError, "AF_UNIX path too long"), SOCKET, id="socket-path-in-a-worker"),
        pytest.param(
            RuntimeError("Couldn't open shared file mapping: <torch_573824_1569179339>, error code: <1455>"),
            COMMIT.format(" (WinError 1455)"),
            id="windows-mapping",
        ),
        pytest.param(
            from_worker(RuntimeError, "Couldn't open shared event: <torch_1_2_0_event>, error code: <1450>"),
            COMMIT.format(" (WinError 1450)"),
            id="windows-event",
        ),
        pytest.param(
            from_worker(OSError, '[WinError 1455] The paging file is too small. Error loading "C:\\torch\\c10.dll"'),
            COMMIT.format(" (WinError 1455)"),
            id="windows-paging-file",
        ),
        pytest.param(
            OSError("[WinError 8] Not enough memory resources are available to process this command"),
            COMMIT.format(" (WinError 8)"),
            id="windows-memory",
        ),
        pytest.param(
            OSError("[WinError 1816] Not enough quota is available to process this command"),
            COMMIT.format(" (WinError 1816)"),
            id="windows-quota",
        ),
        pytest.param(
            from_worker(
                RuntimeError,
                "[enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to "
                "allocate 805306368 bytes.",
            ),
            COMMIT.format(""),
            id="windows-allocator",
        ),
        pytest.param(OSError("[WinError 1114] A DLL initialization routine failed."), LIBRARY, id="windows-dll"),
    ],
)
def test_error_of_the_host_is_explained(error: Exception, text: str) -> None:
    """
    Errors that come back because of a limit say which one, how far it is used, and how to raise it.
    """
    assert explain_error(error, NOW, num_workers=4) == text


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("Too many open files"), id="other-type"),
        pytest.param(from_worker(ValueError, "[Errno 24] Too many open files"), id="other-type-in-a-worker"),
        pytest.param(KeyError("received 0 items of ancdata"), id="key"),
        pytest.param(RuntimeError("my loader: received 0 items of ancdata"), id="quoted"),
        pytest.param(RuntimeError("unable to open file /data/1.png"), id="own-words"),
        pytest.param(
            RuntimeError("unable to mmap 32 bytes from file </data/x.bin>: Cannot allocate memory (12)"), id="map"
        ),
        pytest.param(
            RuntimeError("unable to open shared memory object </torch_1_2> in read-write mode: Permission denied (13)"),
            id="other-number",
        ),
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), id="disk-full"),
        pytest.param(OSError(errno.ENOSPC, "No space left on device", "/data/cache/1.npy"), id="disk-full-at-a-path"),
        pytest.param(from_worker(OSError, "[Errno 28] No space left on device: '/data/x'"), id="disk-full-in-a-worker"),
        pytest.param(from_worker(OSError, "[Errno 28] No space left on device"), id="disk-full-without-a-path"),
        pytest.param(FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/1.png"), id="missing-file"),
        pytest.param(from_worker(FileNotFoundError, "[Errno 2] No such file: '/data/x'"), id="missing-in-a-worker"),
        pytest.param(OSError("[WinError 5] Access is denied: 'C:\\data'"), id="windows-access"),
        pytest.param(OSError("[WinError 6] The handle is invalid"), id="windows-handle"),
        pytest.param(
            RuntimeError("Couldn't open shared file mapping: <torch_1_2>, error code: <2>"), id="windows-gone"
        ),
        pytest.param(MemoryError(), id="memory"),
        pytest.param(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "), id="death"),
        pytest.param(RuntimeError("DataLoader timed out after 20 seconds"), id="time-out"),
        pytest.param(
            RuntimeError("Caught ValueError in replica 0.\nOriginal Traceback (most recent call last):\n"), id="cut"
        ),
        pytest.param(RuntimeError(""), id="empty"),
        pytest.param(StopIteration(), id="end"),
        pytest.param(KeyboardInterrupt(), id="interrupt"),
        pytest.param(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), id="unicode"),
    ],
)
def test_error_of_the_dataset_is_left_alone(error: BaseException) -> None:
    """
    What has nothing to do with the host gets no second opinion.
    """
    assert explain_error(error, NOW, num_workers=4) is None


def test_error_that_quotes_another_in_its_traceback_is_judged_by_its_own_message() -> None:
    """
    Only what stands below the last frame counts, not the errors and code above it.
    """
    error = from_worker(RuntimeError, "cannot decode")
    quoted = RuntimeError(str(error).replace("return self.load(index)", f"raise RuntimeError({FULL!r})"))
    assert explain_error(quoted, NOW, num_workers=4) is None


def raised_in(module: str, error: Exception) -> Exception:
    """
    Return an error as it comes out of a function of some module.
    """

    def fetch(code: str) -> None:
        exec(code, {"__name__": module, "error": error})

    try:
        fetch("raise error")
    except type(error) as caught:
        return caught
    raise AssertionError


LOST = (
    "A batch was lost on its way ({}): the worker that sent it ended before this process had taken over the batch's "
    "tensors. Look on stderr, above, for how it ended, and for sys.exit() and os._exit() in the dataset, the "
    "collate_fn and the worker_init_fn; num_workers=0 shows it in this process."
)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        pytest.param(
            ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
            f"ConnectionResetError: [Errno {errno.ECONNRESET}] Connection reset by peer",
            id="reset",
        ),
        pytest.param(
            FileNotFoundError(errno.ENOENT, "No such file or directory"),
            "FileNotFoundError: [Errno 2] No such file or directory",
            id="socket-gone",
        ),
        pytest.param(EOFError(), "EOFError", id="end-of-file"),
    ],
)
def test_connection_that_ends_while_a_tensor_is_fetched_is_a_worker_that_ended(error: Exception, shown: str) -> None:
    """
    The tensors of a batch are fetched from the worker's own socket; elsewhere such an error is the user's.
    """
    received = raised_in("torch.multiprocessing.reductions", error)
    assert explain_error(received, NOW, num_workers=4) == LOST.format(shown)
    assert explain_error(raised_in("my.sampler", type(error)(*error.args)), NOW, num_workers=4) is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(RuntimeError(FULL), "is full or too small. Give it more", id="shared-memory"),
        pytest.param(RuntimeError("received 0 items of ancdata"), "(ulimit -n 8192)", id="files"),
        pytest.param(OSError(errno.ENFILE, "x"), "(fs.file-max). Raise it", id="files-of-the-host"),
        pytest.param(RuntimeError("Pin memory thread exited unexpectedly"), "too many files are open, or a", id="pin"),
        pytest.param(OSError("AF_UNIX path too long"), "in the temporary folder, and such", id="socket"),
        pytest.param(OSError("[WinError 1455] x"), "used or not. Enlarge", id="windows"),
        pytest.param(
            RuntimeError("unable to mmap 2 bytes from file </torch_1>: Cannot allocate memory (12)"),
            "refused memory for a batch: either",
            id="maps",
        ),
    ],
)
def test_error_on_a_host_that_tells_nothing_leaves_numbers_out(error: Exception, words: str) -> None:
    """
    What is not known is not said.
    """
    text = explain_error(error, UNKNOWN, num_workers=4)
    assert text is not None
    assert words in text
    assert "None" not in text


@pytest.mark.parametrize("error", [RuntimeError(FULL), OSError(errno.EMFILE, "Too many open files")])
def test_error_without_workers_is_the_datasets_own(error: Exception) -> None:
    """
    Nothing travels where nobody else loads.
    """
    assert explain_error(error, NOW, num_workers=0) is None


@pytest.mark.parametrize(
    ("soft", "hard", "advice"),
    [
        pytest.param(1024.0, float("inf"), "Raise the limit before training (ulimit -n 8192)", id="hard-without-limit"),
        pytest.param(1024.0, 524288.0, "Raise the limit before training (ulimit -n 8192)", id="hard-far-above"),
        pytest.param(1024.0, 2048.0, "Raise the limit before training (ulimit -n 2048)", id="hard-near"),
        pytest.param(8192.0, None, "Raise the limit before training (ulimit -n 32768)", id="hard-unknown"),
        pytest.param(
            1024.0,
            1024.0,
            "Have the limit raised (/etc/security/limits.conf; Docker: --ulimit nofile=65536:65536)",
            id="hard-reached",
        ),
        pytest.param(None, None, "Raise the limit before training (ulimit -n 8192)", id="unknown"),
        pytest.param(float("inf"), float("inf"), "Raise the limit before training (ulimit -n 8192)", id="no-limit"),
    ],
)
def test_advice_on_open_files_fits_the_hard_limit(soft: float | None, hard: float | None, advice: str) -> None:
    """
    A shell may raise its limit up to the hard one, and only an administrator beyond.
    """
    now = change("limits", open_files_soft=soft, open_files_hard=hard)
    text = explain_error(RuntimeError("received 0 items of ancdata"), now, num_workers=4)
    assert text is not None
    assert f" leaves open. {advice}, keep copies" in text
