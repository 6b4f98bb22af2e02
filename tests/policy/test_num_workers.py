"""
The truth table of num_workers.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from policy.baseline import (
    BATCHES_OF_64_MIB,
    FORKSERVER,
    GIB,
    HDD,
    ITERABLE,
    MACOS,
    MIB,
    NETWORK,
    NO_ACCELERATOR,
    NO_LIMIT,
    SPAWN,
    THREADS,
    WINDOWS,
    cpus,
    decision,
    own_mask,
    plan_for,
)

DAEMONIC = {"process.is_daemonic": True}
LONG_TEMP_DIR = {"limits.temp_dir": "/" + "x" * 75}
NOT_PYTHON = {"process.interpreter": "/opt/blender/blender", "process.is_interpreter_python": False}
MAIN = {"process.reimported_main": "train.py"}
MAIN_MISSING = {"process.reimported_main": "<stdin>", "process.is_main_missing": True}

CPU_ROWS = [
    pytest.param({}, 16, "num_workers.unmeasured", id="baseline"),
    pytest.param({"cpu.quota_cpus": 2.0}, 2, "num_workers.cpu-quota", id="quota-2-of-64"),
    pytest.param({"cpu.quota_cpus": 2.5}, 2, "num_workers.cpu-quota", id="quota-2.5-is-rounded-down"),
    pytest.param({"cpu.quota_cpus": 0.5}, 1, "num_workers.cpu-quota", id="quota-0.5-is-one-worker"),
    pytest.param({"cpu.quota_cpus": 4.0}, 2, "num_workers.cpu-quota", id="from-4-cpus-on-two-are-kept"),
    pytest.param({"cpu.quota_cpus": 18.0}, 16, "num_workers.cpu-quota", id="of-equal-limits-the-cpus-bind"),
    pytest.param({"cpu.quota_cpus": 30.0}, 16, "num_workers.unmeasured", id="quota-30-does-not-bind"),
    pytest.param(cpus(1), 1, "num_workers.cpu-count", id="one-cpu"),
    pytest.param(cpus(2), 2, "num_workers.cpu-count", id="two-cpus"),
    pytest.param(cpus(8), 6, "num_workers.cpu-count", id="eight-cpus"),
    pytest.param({"cpu.affinity": tuple(range(8))}, 6, "num_workers.cpu-affinity", id="taskset-8-of-64"),
    pytest.param({"cpu.affinity": None, "cpu.cpuset": (0, 2, 4)}, 3, "num_workers.cpu-cpuset", id="cpuset-3-of-64"),
    pytest.param({"cpu.scheduler_cpus": 10.0}, 8, "num_workers.cpu-scheduler", id="slurm-10-of-64"),
    pytest.param(
        {"cpu.scheduler_cpus": 10.0, "cpu.affinity": (0,)}, 1, "num_workers.cpu-affinity", id="slurm-10-but-mask-of-1"
    ),
    pytest.param({"cpu.python_cpu_count": 4}, 2, "num_workers.cpu-python", id="python-cpu-count-4"),
    pytest.param(
        {"cpu.logical": None, "cpu.affinity": None, "cpu.cpuset": None, "cpu.quota_cpus": None},
        1,
        "num_workers.cpu-count",
        id="unknown-cpus-count-as-one",
    ),
]

RANK_ROWS = [
    pytest.param({"job.local_world_size": 8}, 6, "num_workers.local-ranks", id="8-ranks-share-64"),
    pytest.param({"job.local_world_size": 64}, 1, "num_workers.local-ranks", id="64-ranks-share-64"),
    pytest.param({"job.local_world_size": 128}, 1, "num_workers.local-ranks", id="more-ranks-than-cpus"),
    pytest.param(
        {"job.local_world_size": 2, "cpu.quota_cpus": 8.0}, 2, "num_workers.local-ranks", id="2-ranks-share-a-quota"
    ),
    pytest.param(
        {"job.local_world_size": 8, **own_mask(8)},
        6,
        "num_workers.cpu-affinity",
        id="8-ranks-bound-to-8-each",
    ),
    pytest.param(
        {"job.local_world_size": 8, **own_mask(8), "cpu.cpuset": tuple(range(8))},
        1,
        "num_workers.local-ranks",
        id="8-ranks-in-a-container-of-8-cpus",
    ),
    pytest.param(
        {"job.local_world_size": 8, **own_mask(8), "cpu.launcher_affinity": tuple(range(8))},
        1,
        "num_workers.local-ranks",
        id="8-ranks-of-a-launcher-on-8-cpus",
    ),
    pytest.param(
        {"job.local_world_size": 8, **own_mask(8), "cpu.cpuset": None},
        6,
        "num_workers.cpu-affinity",
        id="bound-ranks-without-a-cpuset",
    ),
    pytest.param({"job.local_world_size": None, "cpu.quota_cpus": 8.0}, 6, "num_workers.cpu-quota", id="ranks-unknown"),
]

PRIOR_ROWS = [
    pytest.param({**NO_ACCELERATOR, **cpus(8)}, 2, "num_workers.no-accelerator", id="no-accelerator-a-quarter-of-8"),
    pytest.param({**NO_ACCELERATOR, **cpus(16)}, 4, "num_workers.no-accelerator", id="no-accelerator-a-quarter-of-16"),
    pytest.param({**NO_ACCELERATOR, **cpus(2)}, 1, "num_workers.no-accelerator", id="no-accelerator-at-least-1"),
    pytest.param(
        {**NO_ACCELERATOR, "accelerator.devices": None, **cpus(8)}, 2, "num_workers.no-accelerator", id="none-known-of"
    ),
    pytest.param(
        {**NO_ACCELERATOR, "job.local_world_size": 2, **cpus(16)},
        2,
        "num_workers.no-accelerator",
        id="no-accelerator-a-quarter-of-a-rank's-8",
    ),
    pytest.param(
        {"process.is_torch_built_for_accelerator": False, **cpus(8)},
        2,
        "num_workers.no-accelerator",
        id="torch-is-a-cpu-build",
    ),
    pytest.param(
        {"accelerator.kind": "mps", "process.is_torch_built_for_accelerator": False, **cpus(8)},
        6,
        "num_workers.cpu-count",
        id="mps-is-in-every-build",
    ),
    pytest.param(
        {"traits.sample_bytes": 3 * 32 * 32, **cpus(8)}, 9, "num_workers.small-samples", id="32x32-is-1.5-a-cpu"
    ),
    pytest.param(
        {"traits.sample_bytes": 3 * 32 * 32, **cpus(1)}, 1, "num_workers.small-samples", id="32x32-on-one-cpu"
    ),
    pytest.param(
        {"traits.sample_bytes": 3 * 256 * 256, **cpus(8)}, 6, "num_workers.cpu-count", id="256x256-is-1-a-cpu"
    ),
    pytest.param(
        {"traits.sample_bytes": 3 * 1024 * 1024, **cpus(8)}, 3, "num_workers.large-samples", id="1024x1024-is-0.5-a-cpu"
    ),
    pytest.param(
        {"traits.sample_bytes": 3 * 1024 * 1024, **cpus(1)}, 1, "num_workers.large-samples", id="1024x1024-on-one-cpu"
    ),
    pytest.param({"traits.sample_kind": "text", **cpus(8)}, 12, "num_workers.text", id="text-is-2-a-cpu"),
    pytest.param({"traits.sample_kind": "text", **cpus(3)}, 6, "num_workers.text", id="text-is-never-above-2-a-cpu"),
    pytest.param({"traits.sample_kind": "text", "cpu.quota_cpus": 0.5}, 1, "num_workers.text", id="text-on-half-a-cpu"),
    pytest.param({"traits.sample_kind": "image", **cpus(8)}, 6, "num_workers.cpu-count", id="image-is-1-a-cpu"),
]

STORAGE_ROWS = [
    pytest.param({**NETWORK, **cpus(8)}, 16, "num_workers.network-latency", id="network-is-2-a-cpu"),
    pytest.param(NETWORK, 32, "num_workers.unmeasured", id="network-without-a-measurement"),
    pytest.param(
        {**NETWORK, "cpu.quota_cpus": 0.25}, 1, "num_workers.network-latency", id="network-with-a-quarter-of-a-cpu"
    ),
    pytest.param(
        {**NETWORK, "job.local_world_size": 8, **cpus(32)},
        8,
        "num_workers.network-latency",
        id="network-is-2-of-a-rank's-4-cpus",
    ),
    pytest.param(
        {"traits.path": "s3://bucket/train", "traits.is_remote": True, **cpus(8)},
        16,
        "num_workers.network-latency",
        id="url",
    ),
    pytest.param(
        {**NETWORK, "traits.path": None, **cpus(8)}, 6, "num_workers.cpu-count", id="network-but-no-path-known"
    ),
    pytest.param(HDD, 2, "num_workers.storage-hdd", id="spinning-disk"),
    pytest.param({**HDD, **cpus(1)}, 1, "num_workers.cpu-count", id="spinning-disk-with-one-cpu"),
    pytest.param({**HDD, "traits.path": None}, 16, "num_workers.unmeasured", id="spinning-disk-but-no-path-known"),
    pytest.param(
        {**HDD, "traits.path": "s3://bucket/train", "traits.is_remote": True},
        32,
        "num_workers.unmeasured",
        id="url-from-a-host-with-a-spinning-disk",
    ),
    pytest.param({"storage.kind": "virtual"}, 16, "num_workers.unmeasured", id="virtual-disk-is-no-spinning-disk"),
    pytest.param({"storage.kind": None}, 16, "num_workers.unmeasured", id="storage-unknown"),
]

COMMIT_6_GIB = {"memory.commit_headroom_bytes": 6 * GIB}
RESOURCE_ROWS = [
    pytest.param({"memory.headroom_bytes": 1 * GIB}, 8, "num_workers.memory", id="1-gib-holds-8-forked"),
    pytest.param(
        {"memory.headroom_bytes": 1 * GIB, "fixed.multiprocessing_context": "spawn"},
        2,
        "num_workers.memory",
        id="1-gib-holds-2-spawned",
    ),
    pytest.param(
        {"memory.headroom_bytes": 1 * GIB, "job.local_world_size": 2}, 4, "num_workers.memory", id="1-gib-for-2-ranks"
    ),
    pytest.param(
        {"memory.headroom_bytes": 4 * GIB, **BATCHES_OF_64_MIB}, 10, "num_workers.memory", id="batches-count-in-memory"
    ),
    pytest.param({"memory.headroom_bytes": 100 * MIB}, 0, "num_workers.memory", id="no-memory-for-a-worker"),
    pytest.param({"memory.headroom_bytes": 0.0}, 0, "num_workers.memory", id="no-memory"),
    pytest.param({"memory.headroom_bytes": -1.0}, 0, "num_workers.memory", id="less-than-no-memory"),
    pytest.param({**WINDOWS, **COMMIT_6_GIB, **cpus(16)}, 2, "num_workers.commit", id="windows-promises-6-gib"),
    pytest.param(
        {**WINDOWS, "memory.job_headroom_bytes": 6.0 * GIB}, 2, "num_workers.commit", id="job-object-promises-6-gib"
    ),
    pytest.param(
        {**WINDOWS, **COMMIT_6_GIB, "job.local_world_size": 2}, 1, "num_workers.commit", id="6-gib-promised-to-2-ranks"
    ),
    pytest.param(
        {**WINDOWS, **COMMIT_6_GIB, "process.is_torch_built_for_accelerator": False},
        15,
        "num_workers.commit",
        id="windows-promises-6-gib-to-a-cpu-build",
    ),
    pytest.param(
        {**WINDOWS, "memory.commit_headroom_bytes": None, "memory.job_headroom_bytes": NO_LIMIT},
        4,
        "num_workers.commit",
        id="windows-does-not-tell",
    ),
    pytest.param(
        {**WINDOWS, **COMMIT_6_GIB, **NO_ACCELERATOR, **cpus(64)},
        2,
        "num_workers.commit",
        id="build-for-cuda-without-a-device-that-is-seen",
    ),
    pytest.param(
        {**WINDOWS, "memory.commit_headroom_bytes": None, "job.local_world_size": 2},
        2,
        "num_workers.commit",
        id="windows-does-not-tell-2-ranks",
    ),
    pytest.param({**COMMIT_6_GIB}, 16, "num_workers.unmeasured", id="linux-promises-more"),
    pytest.param({"memory.headroom_bytes": NO_LIMIT}, 16, "num_workers.unmeasured", id="memory-without-limit"),
    pytest.param({"memory.headroom_bytes": None}, 16, "num_workers.unmeasured", id="memory-unknown"),
    pytest.param({"shared_memory.free_bytes": 64 * MIB}, 0, "num_workers.shared-memory", id="docker's-64-mib-of-shm"),
    pytest.param({"shared_memory.free_bytes": 128 * MIB}, 16, "num_workers.unmeasured", id="128-mib-of-shm"),
    pytest.param({"shared_memory.free_bytes": None}, 16, "num_workers.unmeasured", id="shm-unknown"),
    pytest.param(
        {"shared_memory.free_bytes": 1 * GIB, **BATCHES_OF_64_MIB}, 8, "num_workers.shared-memory", id="shm-holds-8"
    ),
    pytest.param(
        {"shared_memory.free_bytes": 1 * GIB, "job.local_world_size": 2, **BATCHES_OF_64_MIB},
        4,
        "num_workers.shared-memory",
        id="shm-holds-8-for-2-ranks",
    ),
    pytest.param(
        {"shared_memory.free_bytes": 1 * GIB, "fixed.prefetch_factor": 4, **BATCHES_OF_64_MIB},
        2,
        "num_workers.shared-memory",
        id="shm-holds-8-of-which-the-user-prefetches-4",
    ),
    pytest.param(
        {"shared_memory.free_bytes": 100 * MIB, **BATCHES_OF_64_MIB},
        0,
        "num_workers.shared-memory",
        id="shm-holds-no-batch",
    ),
    pytest.param(
        {"shared_memory.free_bytes": 1 * GIB, "request.batch_size": None, **BATCHES_OF_64_MIB},
        16,
        "num_workers.unmeasured",
        id="batch-size-unknown",
    ),
    pytest.param({"limits.open_files_soft": 256}, 11, "num_workers.open-files", id="176-files-for-workers"),
    pytest.param(
        {"limits.open_files_soft": 256, "fixed.prefetch_factor": 2}, 8, "num_workers.open-files", id="files-for-batches"
    ),
    pytest.param(
        {"limits.open_files_soft": 256, "limits.open_files_now": None},
        12,
        "num_workers.open-files",
        id="files-open-unknown",
    ),
    pytest.param({"limits.open_files_soft": 255}, 10, "num_workers.open-files", id="175-files-for-workers"),
    pytest.param({"limits.open_files_soft": 64}, 0, "num_workers.open-files", id="no-files-for-workers"),
    pytest.param({"limits.open_files_soft": None}, 16, "num_workers.unmeasured", id="files-unknown"),
    pytest.param({"limits.pids_headroom": 80.0}, 10, "num_workers.processes", id="80-tasks-in-the-control-group"),
    pytest.param({"limits.processes_soft": 64.0}, 8, "num_workers.processes", id="64-tasks-for-the-user"),
    pytest.param(
        {"limits.pids_headroom": 80.0, "limits.processes_soft": 64.0}, 8, "num_workers.processes", id="both-task-limits"
    ),
    pytest.param(
        {"limits.pids_headroom": 80.0, "job.local_world_size": 2}, 5, "num_workers.processes", id="80-tasks-for-2-ranks"
    ),
    pytest.param({"limits.pids_headroom": 7.0}, 0, "num_workers.processes", id="7-tasks-in-the-control-group"),
    pytest.param({"limits.pids_headroom": 8.0}, 1, "num_workers.processes", id="8-tasks-in-the-control-group"),
    pytest.param({"limits.processes_soft": 0.0}, 0, "num_workers.processes", id="no-task-left-for-the-user"),
    pytest.param(
        {"limits.pids_headroom": None, "limits.processes_soft": None}, 16, "num_workers.unmeasured", id="tasks-unknown"
    ),
]

DATASET_ROWS = [
    pytest.param({"traits.batches_per_epoch": 10}, 5, "num_workers.batches-per-epoch", id="10-batches"),
    pytest.param({"traits.batches_per_epoch": 3}, 2, "num_workers.batches-per-epoch", id="3-batches"),
    pytest.param({"traits.batches_per_epoch": 1}, 1, "num_workers.batches-per-epoch", id="1-batch"),
    pytest.param({"traits.batches_per_epoch": 0}, 0, "num_workers.no-batches", id="no-batch"),
    pytest.param({"traits.batches_per_epoch": None}, 16, "num_workers.unmeasured", id="batches-unknown"),
    pytest.param(
        {"traits.batches_per_epoch": 4, "request.epochs": 2}, 1, "num_workers.few-iterations", id="8-batches-in-all"
    ),
    pytest.param(
        {"traits.batches_per_epoch": 5, "request.epochs": 2}, 3, "num_workers.batches-per-epoch", id="10-batches-in-all"
    ),
    pytest.param({"traits.is_in_memory": True}, 0, "num_workers.in-memory", id="in-memory"),
    pytest.param(ITERABLE, 0, "num_workers.iterable-not-sharded", id="iterable"),
    pytest.param({**ITERABLE, "traits.num_shards": 4}, 4, "num_workers.shards", id="iterable-of-4-shards"),
    pytest.param({**ITERABLE, "traits.num_shards": 99}, 16, "num_workers.unmeasured", id="iterable-of-99-shards"),
    pytest.param(
        {**ITERABLE, "traits.num_shards": 99, "traits.batches_per_epoch": 79},
        15,
        "num_workers.last-batches",
        id="iterable-of-79-batches",
    ),
    pytest.param(
        {**ITERABLE, "traits.num_shards": 99, "traits.batches_per_epoch": 79, "request.drop_last": True},
        3,
        "num_workers.last-batches",
        id="iterable-of-79-batches-that-drops",
    ),
    pytest.param(
        {**ITERABLE, "traits.num_shards": 99, "traits.batches_per_epoch": 4},
        1,
        "num_workers.last-batches",
        id="iterable-of-4-batches",
    ),
    pytest.param(
        {**ITERABLE, "traits.is_worker_aware": True}, 16, "num_workers.unmeasured", id="iterable-worker-aware"
    ),
    pytest.param(
        {**ITERABLE, "traits.is_worker_aware": True, "traits.num_shards": 4},
        4,
        "num_workers.shards",
        id="iterable-worker-aware-of-4-shards",
    ),
]

OBSTACLE_ROWS = [
    pytest.param({"process.is_dataloader_worker": True}, 0, "num_workers.nested-worker", id="in-a-worker"),
    pytest.param({"process.is_daemonic": True}, 0, "num_workers.daemonic", id="daemonic"),
    pytest.param(
        {"process.is_daemonic": True, "process.is_dataloader_worker": True},
        0,
        "num_workers.nested-worker",
        id="a-worker-is-daemonic-too",
    ),
    pytest.param({"shared_memory.is_writable": False}, 0, "num_workers.shared-memory-read-only", id="shm-read-only"),
    pytest.param({"shared_memory.is_writable": None}, 16, "num_workers.unmeasured", id="shm-may-be-writable"),
    pytest.param({"process.has_semaphores": False}, 0, "num_workers.no-semaphores", id="no-semaphores"),
    pytest.param({"process.has_semaphores": None}, 16, "num_workers.unmeasured", id="semaphores-unknown"),
    pytest.param(LONG_TEMP_DIR, 0, "num_workers.temp-dir-too-long", id="temp-dir-of-76-bytes"),
    pytest.param({"limits.temp_dir": "/" + "x" * 74}, 16, "num_workers.unmeasured", id="temp-dir-of-75-bytes"),
    pytest.param({"limits.temp_dir": None}, 16, "num_workers.unmeasured", id="temp-dir-unknown"),
    pytest.param({**LONG_TEMP_DIR, **WINDOWS}, 16, "num_workers.unmeasured", id="temp-dir-of-76-bytes-on-windows"),
    pytest.param({"limits.pids_headroom": 0.0}, 0, "num_workers.few-processes", id="no-task-left"),
    pytest.param({"limits.pids_headroom": 3.0}, 0, "num_workers.few-processes", id="3-tasks-in-the-control-group"),
    pytest.param({**SPAWN, **NOT_PYTHON}, 0, "num_workers.not-python", id="spawn-of-an-application"),
    pytest.param({**THREADS, **NOT_PYTHON}, 0, "num_workers.not-python", id="forkserver-of-an-application"),
    pytest.param(NOT_PYTHON, 16, "num_workers.unmeasured", id="fork-of-an-application"),
    pytest.param({**SPAWN, **MAIN_MISSING}, 0, "num_workers.main-missing", id="spawn-of-standard-input"),
    pytest.param({**FORKSERVER, **THREADS, **MAIN_MISSING}, 0, "num_workers.main-missing", id="forkserver-of-stdin"),
    pytest.param(MAIN_MISSING, 16, "num_workers.unmeasured", id="fork-of-standard-input"),
]

PROCESS_ROWS = [
    pytest.param(SPAWN, 16, "num_workers.unmeasured", id="spawn"),
    pytest.param({**SPAWN, **MAIN}, 16, "num_workers.unmeasured", id="spawn-imports-main"),
    pytest.param({**FORKSERVER, **THREADS, **MAIN}, 16, "num_workers.unmeasured", id="forkserver-imports-main"),
    pytest.param({**FORKSERVER, **MAIN}, 16, "num_workers.unmeasured", id="quiet-fork-imports-nothing"),
    pytest.param(MAIN, 16, "num_workers.unmeasured", id="fork-imports-nothing"),
    pytest.param(MACOS, 16, "num_workers.unmeasured", id="macos"),
    pytest.param(
        {**SPAWN, "memory.headroom_bytes": 1 * GIB}, 2, "num_workers.memory", id="1-gib-holds-2-spawned-by-default"
    ),
    pytest.param(
        {**THREADS, "memory.headroom_bytes": 1 * GIB}, 2, "num_workers.memory", id="1-gib-holds-2-beside-a-thread"
    ),
    pytest.param({"traits.open_handle": "file"}, 0, "num_workers.open-handle", id="open-file"),
    pytest.param(
        {"fixed.multiprocessing_context": "spawn"}, 16, "num_workers.unmeasured", id="spawn-of-the-users-without-main"
    ),
]

DATASET_FIRST_ROWS = [
    pytest.param({"traits.batches_per_epoch": 0, **DAEMONIC}, 0, "num_workers.no-batches", id="empty-in-a-daemon"),
    pytest.param({"traits.is_in_memory": True, **DAEMONIC}, 0, "num_workers.in-memory", id="in-memory-in-a-daemon"),
    pytest.param({**ITERABLE, **DAEMONIC}, 0, "num_workers.iterable-not-sharded", id="iterable-in-a-daemon"),
    pytest.param(
        {**ITERABLE, **SPAWN, **MAIN_MISSING}, 0, "num_workers.iterable-not-sharded", id="iterable-of-standard-input"
    ),
    pytest.param({"traits.open_handle": "file", **DAEMONIC}, 0, "num_workers.daemonic", id="open-file-in-a-daemon"),
]

REQUEST_ROWS = [
    pytest.param({"fixed.num_workers": 0}, 0, "num_workers.fixed", id="fixed-0"),
    pytest.param({"fixed.num_workers": 200}, 200, "num_workers.fixed", id="fixed-200"),
    pytest.param({"fixed.num_workers": 4, **ITERABLE}, 4, "num_workers.fixed", id="fixed-for-an-iterable"),
    pytest.param({"fixed.num_workers": 4, **DAEMONIC}, 4, "num_workers.fixed", id="fixed-in-a-daemon"),
    pytest.param({"fixed.num_workers": 4, **SPAWN, **MAIN_MISSING}, 4, "num_workers.fixed", id="fixed-for-stdin"),
    pytest.param({"fixed.prefetch_factor": 2, **DAEMONIC}, 1, "num_workers.needed", id="needed-in-a-daemon"),
    pytest.param(
        {"traits.is_in_memory": True, "fixed.prefetch_factor": 2}, 1, "num_workers.needed", id="needed-to-prefetch"
    ),
    pytest.param(
        {"traits.is_in_memory": True, "fixed.persistent_workers": True}, 1, "num_workers.needed", id="needed-to-persist"
    ),
    pytest.param({"traits.is_in_memory": True, "fixed.timeout": 5}, 1, "num_workers.needed", id="needed-to-time-out"),
    pytest.param(
        {"traits.is_in_memory": True, "fixed.multiprocessing_context": "spawn"},
        1,
        "num_workers.needed",
        id="needed-for-a-context",
    ),
    pytest.param({**ITERABLE, "fixed.prefetch_factor": 2}, 1, "num_workers.needed", id="one-worker-repeats-nothing"),
    pytest.param(
        {"traits.is_in_memory": True, "fixed.persistent_workers": False},
        0,
        "num_workers.in-memory",
        id="not-to-persist",
    ),
    pytest.param({"traits.is_in_memory": True, "fixed.timeout": 0}, 0, "num_workers.in-memory", id="no-time-out"),
    pytest.param({"traits.is_in_memory": True, "fixed.pin_memory": True}, 0, "num_workers.in-memory", id="pinning"),
    pytest.param({"fixed.prefetch_factor": 2}, 16, "num_workers.unmeasured", id="prefetch-with-workers"),
]

QUICK_STEPS = {"profile.step_seconds": 0.1, "profile.step_cpu_seconds": 0.1}
NO_STEPS = {"profile.step_seconds": 0.0, "profile.step_cpu_seconds": 0.0}
NO_STEPS_SEEN = {"profile.step_seconds": None, "profile.step_cpu_seconds": None}
WAITING = {"profile.sample_cpu_seconds": 0.0002, "profile.step_seconds": 0.02, "profile.step_cpu_seconds": 0.02}
FEW_LEFT = {"outlook.batches_left": 3, "outlook.batches": 5}
TINY = {"profile.sample_seconds": 1e-5, "profile.sample_cpu_seconds": 1e-5}

MEASURED_ROWS = [
    pytest.param({"profile.batches": 2}, 4, "num_workers.measured", id="4-workers-load-in-the-time-of-a-step"),
    pytest.param(QUICK_STEPS, 10, "num_workers.measured", id="10-workers-load-in-the-time-of-a-quicker-step"),
    pytest.param(
        {**QUICK_STEPS, "cpu.quota_cpus": 4.0}, 4, "num_workers.measured", id="loading-and-steps-fill-a-quota-of-4"
    ),
    pytest.param({**NO_STEPS, "cpu.quota_cpus": 2.0}, 2, "num_workers.measured", id="loading-fills-a-quota-of-2"),
    pytest.param(
        {**NO_STEPS, "job.local_world_size": 32}, 2, "num_workers.measured", id="loading-fills-the-2-cpus-of-a-rank"
    ),
    pytest.param({**WAITING, "cpu.quota_cpus": 2.0}, 46, "num_workers.measured", id="data-that-waits-needs-no-cpus"),
    pytest.param(
        {**WAITING, **NO_STEPS, **WINDOWS}, 58, "num_workers.measured", id="windows-waits-for-no-more-than-60"
    ),
    pytest.param({**SPAWN, **FEW_LEFT}, 3, "num_workers.measured", id="8-seconds-of-loading-pay-for-spawning"),
    pytest.param(
        {**SPAWN, **FEW_LEFT, "profile.sample_seconds": 0.001, "profile.sample_cpu_seconds": 0.001},
        0,
        "num_workers.inline-is-faster",
        id="half-a-second-of-loading-does-not",
    ),
    pytest.param(TINY, 0, "num_workers.inline-is-faster", id="half-a-millisecond-a-batch"),
    pytest.param({**TINY, "fixed.prefetch_factor": 4}, 1, "num_workers.needed", id="inline-but-the-user-prefetches"),
    pytest.param({"profile.transfer_seconds": None}, 0, "num_workers.cannot-send", id="batch-cannot-be-pickled"),
    pytest.param(
        {**QUICK_STEPS, "memory.headroom_bytes": 1 * GIB}, 7, "num_workers.memory", id="1-gib-holds-7-with-2-batches"
    ),
    pytest.param(
        {"profile.batches": 2, "shared_memory.free_bytes": 64 * MIB},
        0,
        "num_workers.shared-memory",
        id="docker's-64-mib-of-shm-may-not-hold-later-batches",
    ),
    pytest.param(
        {"profile.batches": 2, "shared_memory.free_bytes": 64 * MIB, "traits.sample_bytes": 16 * 1024},
        4,
        "num_workers.measured",
        id="docker's-64-mib-of-shm-hold-batches-of-a-known-shape",
    ),
    pytest.param(
        {"profile.batches": 2, "traits.reads_open_file": True},
        0,
        "num_workers.reads-open-file",
        id="reads-an-open-file",
    ),
    pytest.param({**QUICK_STEPS, **HDD}, 2, "num_workers.storage-hdd", id="spinning-disk-measured"),
    pytest.param({**QUICK_STEPS, **ITERABLE, "traits.num_shards": 4}, 4, "num_workers.shards", id="4-shards-measured"),
    pytest.param(
        {**NO_STEPS_SEEN, **NO_ACCELERATOR, **cpus(16)},
        4,
        "num_workers.no-accelerator",
        id="no-step-seen-and-no-accelerator",
    ),
    pytest.param(
        {
            **QUICK_STEPS,
            **ITERABLE,
            "traits.is_worker_aware": True,
            **NO_ACCELERATOR,
            **cpus(16),
            "outlook.batches": None,
        },
        4,
        "num_workers.no-accelerator",
        id="stream-of-unknown-length",
    ),
    pytest.param(
        {**QUICK_STEPS, **ITERABLE, "traits.is_worker_aware": True, "outlook.batches": 15, "request.drop_last": True},
        1,
        "num_workers.last-batches",
        id="stream-that-had-15-batches",
    ),
    pytest.param({**TINY, **ITERABLE, "traits.is_worker_aware": True}, 1, "num_workers.measured", id="quick-stream"),
    pytest.param({**TINY, "request.has_worker_init": True}, 1, "num_workers.measured", id="that-a-worker-prepares"),
    pytest.param(NO_STEPS_SEEN, 61, "num_workers.measured", id="no-step-seen-beside-an-accelerator"),
    pytest.param({**QUICK_STEPS, "measured.best": 6}, 6, "num_workers.calibrated", id="6-were-best-in-trials"),
    pytest.param({**QUICK_STEPS, "measured.best": 0}, 0, "num_workers.calibrated", id="inline-was-best-in-trials"),
    pytest.param(
        {**QUICK_STEPS, "measured.best": 8, "memory.headroom_bytes": 1 * GIB},
        7,
        "num_workers.memory",
        id="8-were-best-in-trials-and-7-fit-now",
    ),
    pytest.param({**QUICK_STEPS, "fixed.num_workers": 3}, 3, "num_workers.fixed", id="fixed-whatever-was-measured"),
    pytest.param({**QUICK_STEPS, **DAEMONIC}, 0, "num_workers.daemonic", id="daemonic-whatever-was-measured"),
]


@pytest.mark.parametrize(
    ("changes", "value", "rule"),
    [
        *MEASURED_ROWS,
        *(*CPU_ROWS, *RANK_ROWS, *PRIOR_ROWS, *STORAGE_ROWS, *RESOURCE_ROWS),
        *(*OBSTACLE_ROWS, *PROCESS_ROWS, *DATASET_ROWS, *DATASET_FIRST_ROWS, *REQUEST_ROWS),
    ],
)
def test_num_workers_truth_table(changes: Mapping[str, Any], value: int, rule: str) -> None:
    """
    Each situation has its number of workers, for its reason.
    """
    assert decision(changes, "num_workers") == (value, rule)


def test_num_workers_of_the_baseline_lists_what_did_not_bind() -> None:
    """
    The limits that were looked at and did not bind are there to be explained, smallest first.
    """
    limits = plan_for({}).choices["num_workers"].limits
    assert [(limit.rule, limit.value) for limit in limits] == [
        ("num_workers.cpu-count", 57),
        ("num_workers.batches-per-epoch", 782),
        ("num_workers.memory", 2048),
        ("num_workers.shared-memory", NO_LIMIT),
        ("num_workers.open-files", NO_LIMIT),
        ("num_workers.processes", NO_LIMIT),
    ]


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "nothing was measured", id="unmeasured"),
        pytest.param(
            {"profile.batches": 2},
            "a batch takes 1 s to load (1 s of it CPU), and 250 ms to train on: more than 4 would not be faster by 3 %",
            id="measured",
        ),
        pytest.param(
            {**NO_STEPS_SEEN, **NO_ACCELERATOR, **cpus(16)},
            "a quarter, at least 1, as training without an accelerator needs the CPU: 16 usable CPUs (logical); by "
            "what was measured, 16 would be faster",
            id="measured-but-bound",
        ),
        pytest.param(
            TINY,
            "a batch takes 500 us to load (500 us of it CPU), and 250 ms to train on, and 1 ms to come from a worker",
            id="quick-to-load",
        ),
        pytest.param(
            {**SPAWN, **FEW_LEFT, "profile.sample_seconds": 0.001, "profile.sample_cpu_seconds": 0.001},
            "a batch takes 50 ms to load (50 ms of it CPU), and 250 ms to train on: workers would not make up for "
            "their start",
            id="few-left",
        ),
        pytest.param({"cpu.quota_cpus": 2.0}, "2 usable CPUs (quota_cpus)", id="quota"),
        pytest.param(cpus(1), "1 usable CPU (logical)", id="one-cpu"),
        pytest.param(cpus(8), "8 usable CPUs (logical), less 2 for the training process", id="reserve"),
        pytest.param(
            {"job.local_world_size": 4},
            "64 usable CPUs (logical), shared by 4 ranks, less 2 for the training process",
            id="ranks",
        ),
        pytest.param(
            {**cpus(8), **NO_ACCELERATOR},
            "a quarter, at least 1, as training without an accelerator needs the CPU: 8 usable CPUs (logical)",
            id="no-accelerator",
        ),
        pytest.param({**cpus(8), **NETWORK}, "the data lies across a network, 8 usable CPUs (logical)", id="network"),
        pytest.param(
            {**cpus(8), "traits.sample_kind": "text"},
            "2 workers a CPU, 8 usable CPUs (logical), less 2 for the training process",
            id="text",
        ),
        pytest.param(HDD, "/data/train lies on a spinning disk", id="hdd"),
        pytest.param(
            {"memory.headroom_bytes": 1 * GIB},
            "half of 1 GiB free (available_bytes), about 64 MiB a worker",
            id="memory",
        ),
        pytest.param(
            {"shared_memory.free_bytes": 64 * MIB},
            "only 64 MiB free in /dev/shm, and the size of a batch is unknown",
            id="shm",
        ),
        pytest.param(
            {"shared_memory.free_bytes": 1 * GIB, **BATCHES_OF_64_MIB},
            "half of 1 GiB free in /dev/shm, 64 MiB a batch",
            id="shm-and-batch",
        ),
        pytest.param(
            {"shared_memory.is_writable": False},
            "this process may not write to /dev/shm, through which batches travel",
            id="shm-read-only",
        ),
        pytest.param(DAEMONIC, "this process is daemonic, and Python lets it have no children", id="daemonic"),
        pytest.param(
            {**SPAWN, **MAIN_MISSING},
            "each worker that spawn starts would import <stdin>, which does not exist",
            id="main-missing",
        ),
        pytest.param(
            {"limits.open_files_soft": 256}, "256 open files allowed, 80 kept for training, 16 a worker", id="files"
        ),
        pytest.param(
            {"limits.pids_headroom": 80.0}, "half of 80 more processes and threads allowed, 4 a worker", id="processes"
        ),
        pytest.param({"traits.batches_per_epoch": 10}, "half of 10 batches an epoch", id="batches"),
        pytest.param({"traits.batches_per_epoch": 4, "request.epochs": 2}, "8 batches in all", id="few-iterations"),
        pytest.param({"fixed.num_workers": 3}, "you set it", id="fixed"),
        pytest.param(
            {"traits.is_in_memory": True, "fixed.timeout": 5, "fixed.prefetch_factor": 2},
            "you set prefetch_factor and timeout, which torch accepts with workers only",
            id="needed",
        ),
    ],
)
def test_num_workers_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names the fact that decided, with its unit.
    """
    assert plan_for(changes).choices["num_workers"].because == because
