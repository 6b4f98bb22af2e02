"""
How worker processes end or fall silent, and what keeps their batches from arriving.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="worker.out-of-memory",
        title="The kernel's out-of-memory killer ended a worker",
        text=(
            "{died}: the kernel's out-of-memory killer did it, {source} counts {kills} since the workers started"
            "{memory}."
        ),
        fix=(
            "Pass {fewer}, a smaller batch_size or prefetch_factor=1, or allow more memory (Docker: --memory; "
            "Kubernetes: resources.limits.memory; Slurm: --mem)."
        ),
    ),
    Finding(
        id="worker.memory-short",
        title="A worker was killed where memory is short",
        text=(
            "{died}, and memory is short{memory}: most likely an out-of-memory killer did it, the kernel's or one like "
            "earlyoom, systemd-oomd or a batch system's."
        ),
        fix=(
            "Pass {fewer}, a smaller batch_size or prefetch_factor=1, or allow more memory (Docker: --memory; "
            "Kubernetes: resources.limits.memory; Slurm: --mem)."
        ),
    ),
    Finding(
        id="worker.killed",
        title="A worker was killed from outside",
        text="{died}: something sent it this signal, which no process survives; {evidence}{memory}.",
        fix=(
            "Look for who did: 'dmesg' and the journal name what an out-of-memory killer ended, and a batch system or "
            "container has a log of its own. If that was for memory, pass {fewer}."
        ),
    ),
    Finding(
        id="worker.shared-memory-full",
        title="Shared memory is full, which is often a bus error (SIGBUS)",
        text="{what}: shared memory, through which batches travel, is full or too small{shared}.",
        fix=(
            "Give it more (Docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory at "
            "/dev/shm; elsewhere: mount -o remount,size=8g /dev/shm), or pass {fewer}, prefetch_factor=1 or a smaller "
            "batch_size."
        ),
    ),
    Finding(
        id="worker.shared-memory-gone",
        title="A batch lies in shared memory that was removed",
        text=(
            "The batch cannot be received: the shared memory that it lies in was removed, as happens when the worker "
            "that sent it has ended, or when something cleans {folder}."
        ),
        fix=(
            "Leave torch's sharing strategy at 'file_descriptor', whose memory has no name that could be removed, and "
            "keep the workers until their last batch is taken."
        ),
    ),
    Finding(
        id="worker.batch-lost",
        title="A worker ended while its batch was on the way",
        text=(
            "A batch was lost on its way ({error}): the worker that sent it ended before this process had taken over "
            "the batch's tensors."
        ),
        fix=(
            "Look on stderr, above, for how it ended, and for sys.exit() and os._exit() in the dataset, the collate_fn "
            "and the worker_init_fn; num_workers=0 shows it in this process."
        ),
    ),
    Finding(
        id="worker.bus-error",
        title="A worker used an address behind which there is no memory",
        text=(
            "{died}: behind an address that it used there was no memory. Either shared memory ran full{shared}, or a "
            "file that is read through a memory map (numpy.memmap, mmap, LMDB, safetensors) became shorter or could "
            "not be read."
        ),
        fix=(
            "See that nothing changes the data's files during training and that their disk is sound, or give shared "
            "memory more (Docker: --shm-size=8g)."
        ),
    ),
    Finding(
        id="worker.segmentation-fault",
        title="Native code crashed a worker",
        text="{died}: native code, a library's or torch's own, used memory that is not its own{forked}.",
        fix=(
            "The line of Python stands below, if the worker could still write it; num_workers=0 under 'python -X "
            "faulthandler' shows it in this process. If it happens in workers only, try {method}."
        ),
    ),
    Finding(
        id="worker.aborted",
        title="Native code gave up in a worker",
        text=(
            "{died}: native code gave up (abort), over a failed check, an exception in C++ that nobody caught, or a "
            "damaged heap; its last words stand on stderr, above{forked}."
        ),
        fix=(
            "Read these; to see the line of Python, pass num_workers=0 once and start 'python -X faulthandler'. If it "
            "happens in workers only, try {method}."
        ),
    ),
    Finding(
        id="worker.stack-overflow",
        title="A worker's stack is full",
        text="{died}: its stack is full, by a recursion without end or by native code that needs a deep one.",
        fix=(
            "Look for a function that calls itself, __getattr__ for one; to see the line of Python, pass num_workers=0 "
            "once and start 'python -X faulthandler'."
        ),
    ),
    Finding(
        id="worker.illegal-instruction",
        title="A worker met an instruction that its CPU does not have",
        text=(
            "{died}: native code has an instruction that this CPU does not know, as a library does that was built for "
            "another one."
        ),
        fix=(
            "Find the library: pass num_workers=0 once and start 'python -X faulthandler', which prints the line of "
            "Python. Then install a build of it that fits this CPU."
        ),
    ),
    Finding(
        id="worker.cpu-time",
        title="A worker used up its CPU time",
        text="{died}: it used up the CPU time that a process may have here (RLIMIT_CPU).",
        fix="Raise that before training (ulimit -t unlimited), or ask the batch system for more.",
    ),
    Finding(
        id="worker.stopped",
        title="A worker was asked from outside to end",
        text="{died}: this comes from outside, such as {who}.",
        fix=(
            "Look at the log of what could have sent it, such as the job's time limit; start long runs where no "
            "terminal ends them (tmux, nohup, a batch job)."
        ),
    ),
    Finding(
        id="worker.unhandled-signal",
        title="A worker got a signal that it does not handle",
        text="{died}: a worker has no handler for it; it may come from {who}.",
        fix=(
            "Ignore it in workers, by signal.signal(signal.{name}, signal.SIG_IGN) in worker_init_fn, or see that only "
            "the training process gets it."
        ),
    ),
    Finding(
        id="worker.crashed",
        title="A worker ended by a signal or a status that is seldom met",
        text="{died}{meaning}.",
        fix=(
            "Read what stands on stderr, above; to see the line of Python, pass num_workers=0 once and start 'python "
            "-X faulthandler'."
        ),
    ),
    Finding(
        id="worker.commit-limit",
        title="Windows has no memory left to promise",
        text=(
            "{what}: Windows promises no more than memory and page file hold, and each worker that imports torch has "
            "it promise up to 2.5 GiB, used or not{memory}."
        ),
        fix=(
            "Enlarge the page file (System, Advanced, Performance, Virtual memory), close other programs, or pass "
            "{fewer}."
        ),
    ),
    Finding(
        id="worker.library-not-loaded",
        title="A DLL could not be loaded in a worker",
        text="{what}: a DLL is missing, does not fit, or could not start.",
        fix=(
            "Install torch and the Visual C++ Redistributable anew; where the training process loads the same DLLs, "
            "memory is short: enlarge the page file, or pass {fewer}."
        ),
    ),
    Finding(
        id="worker.failed-to-start",
        title="A worker failed while it started",
        text=(
            "{died}: a worker that {starts} imports the script and its modules anew, unpickles the dataset, and calls "
            "worker_init_fn; one of these failed or ended it."
        ),
        fix=(
            "Read its traceback on stderr, above. Keep what only the training process should do under 'if __name__ == "
            '"__main__":\', and nothing outside of it that exits; num_workers=0 starts nothing.'
        ),
    ),
    Finding(
        id="worker.exited",
        title="A worker exited in the middle of an epoch",
        text=(
            "{died}: an error that torch does not catch ended it, whose traceback stands on stderr, above, or code in "
            "it called sys.exit() or os._exit()."
        ),
        fix=(
            "Mend what the traceback says, or look for such a call in the dataset, the collate_fn and the "
            "worker_init_fn; num_workers=0 shows it in this process."
        ),
    ),
    Finding(
        id="worker.exited-quietly",
        title="A worker exited in the middle of an epoch, as if all were done",
        text=(
            "{died}: code in it called sys.exit() or os._exit(0), or something asked it to end (kill, kill -INT, or "
            "terminate() in this process)."
        ),
        fix=(
            "Look for such a call in the dataset, the collate_fn and the worker_init_fn: an error is raised, and an "
            "IterableDataset ends by return. If there is none, look for who ends processes: a batch system, a time "
            "limit."
        ),
    ),
    Finding(
        id="worker.exit-unknown",
        title="A worker is gone, and nobody knows how it ended",
        text="{died}, how is not known: the system keeps no exit code where SIGCHLD is ignored or others wait for it.",
        fix=(
            "Look on stderr, above, for its last words. Leave SIGCHLD alone, and do not call os.wait() or "
            "os.waitpid(-1, 0) in this process, and the next error says more."
        ),
    ),
    Finding(
        id="worker.fork-server-died",
        title="The fork server ended, and its workers with it",
        text=(
            "{died}: multiprocessing says 255 where the fork server ended before the worker did, and a worker that "
            "calls sys.exit(-1) ends so, too; {evidence}{memory}."
        ),
        fix=(
            "Look on stderr, above, and in 'dmesg' for what ended it, or do without a fork server: pass "
            "multiprocessing_context='spawn'."
        ),
    ),
    Finding(
        id="worker.keeps-dying",
        title="Workers die again and again before they deliver a batch",
        text=(
            "Workers were started anew {restarts} times in a row, and died each time before the batch came that was "
            "due (samples {indices})."
        ),
        fix="Load these samples in this process, by dataset[index] or with num_workers=0, to see what they do.",
    ),
    Finding(
        id="worker.open-files",
        title="Too many files are open",
        text=(
            "Too many files are open{limits}: each tensor that came from a worker holds one as long as it is kept, and "
            "so does each file that the dataset leaves open."
        ),
        fix=(
            "{raised}, keep copies instead of the tensors of a batch (tensor.clone()), and close in __getitem__ what "
            "it opens."
        ),
    ),
    Finding(
        id="worker.open-files-of-host",
        title="Too many files are open on the whole host",
        text="Too many files are open on this host, by all processes together (fs.file-max).",
        fix="Raise it (sysctl -w fs.file-max=2097152), or end what holds them: 'lsof | wc -l' counts.",
    ),
    Finding(
        id="worker.memory-refused",
        title="The system refused memory for a batch",
        text=(
            "The system refused memory for a batch{memory}: either it is short, or this process has as many memory "
            "maps as it may (vm.max_map_count, 65530 by default), of which each tensor that came from a worker holds "
            "one."
        ),
        fix=(
            "Keep copies instead of the tensors of a batch (tensor.clone()), return fewer tensors a sample, raise the "
            "number (sysctl -w vm.max_map_count=262144), or pass {fewer}."
        ),
    ),
    Finding(
        id="worker.pin-thread",
        title="The thread that pins memory has ended",
        text=(
            "The thread that copies batches into pinned memory has ended; its traceback stands on stderr, above. Most "
            "often too many files are open{limits}, or a worker ended while its batch was on the way."
        ),
        fix="Mend what the traceback says, or pass pin_memory=False, which needs no such thread.",
    ),
    Finding(
        id="worker.socket-path",
        title="The path of a socket is too long",
        text=(
            "The path of a socket is too long: processes talk through sockets in the temporary folder{folder}, and "
            "such a path has about 100 characters at most."
        ),
        fix="Set TMPDIR to a shorter path before Python starts (export TMPDIR=/tmp), or pass num_workers=0.",
    ),
    Finding(
        id="worker.cannot-send",
        title="A worker cannot send what it made",
        text=(
            "Worker process {pid} cannot send a batch of type {what}: what travels between processes is pickled, and "
            "this cannot be ({reason})."
        ),
        fix=(
            "Return tensors, arrays, numbers and text from __getitem__ and collate_fn, no open file, lock, generator "
            "or lambda; or pass num_workers=0."
        ),
    ),
    Finding(
        id="worker.cannot-get-indices",
        title="The indices of a batch cannot be sent to a worker",
        text=(
            "The indices of a batch cannot be sent to a worker: what travels between processes is pickled, and what "
            "the sampler gave cannot be ({reason})."
        ),
        fix="Let the sampler yield numbers, text or tuples of these, or pass num_workers=0.",
    ),
    Finding(
        id="worker.timed-out",
        title="A batch did not come in the time that the user allows",
        text=(
            "Worker process {pid}, which was waited for, is {state}; samples due: {indices}. Where it is, the "
            "innermost call first:\n\n{stack}\n\nThe batch did not come in the time that you gave it."
        ),
        fix=(
            "Look at what this code waits for: a lock, a download, or a disk or network file system ('disk sleep'). "
            "Pass a larger timeout if it only takes long, or num_workers=0 to see it in this process."
        ),
    ),
    Finding(
        id="worker.stream-not-restarted",
        title="on_worker_death='restart' is given with an iterable-style dataset",
        text=(
            "on_worker_death='restart' does not help here: what a worker of an iterable-style dataset had yielded is "
            "gone."
        ),
        fix="Begin the epoch again, or use a map-style dataset, whose indices are known.",
    ),
    Finding(
        id="worker.silent",
        title="A worker has been silent for long",
        text=(
            "No batch has come for {seconds} s. Worker process {pid}, which is waited for, is {state}; samples due: "
            "{indices}. Where it is:\n\n{stack}\n\nThe loader goes on waiting."
        ),
        fix=(
            "Look at what this code waits for: a lock, a download, or a disk or network file system ('disk sleep'). "
            "Pass timeout=600 to get an error instead, or num_workers=0 to see it in this process."
        ),
    ),
)
"""
The findings of this area, in the order of the docs.
"""
