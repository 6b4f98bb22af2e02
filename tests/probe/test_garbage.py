"""
Whatever files and variables hold, the probe answers.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoloader.facts import HostFacts
from autoloader.probe import probe_host, probe_memory
from autoloader.probe.host_io import DiskSpace
from autoloader.records import from_json, to_json
from support import FakeHost


class GarbageHost(FakeHost):
    """
    A host on which every file exists and holds text that a test draws, and every folder any names.
    """

    def __init__(self, draw: Any) -> None:
        super().__init__()
        self.environment = {name: draw(TEXTS) for name in VARIABLES}
        self._draw = draw

    def read_text(self, path: str) -> str | None:
        return self._draw(TEXTS)

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        return self._draw(NAMES)

    def disk_space(self, path: str) -> DiskSpace | None:
        return DiskSpace(1, 0)


VARIABLES = (
    *("PYTHON_CPU_COUNT", "CUDA_VISIBLE_DEVICES", "container", "LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK"),
    *("SLURM_STEP_ID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "SLURM_CPUS_PER_TASK", "SLURM_JOB_CPUS_PER_NODE"),
    *("PBS_JOBID", "PBS_NUM_PPN", "NCPUS", "NSLOTS", "LSB_DJOB_NUMPROC", "LSB_MCPU_HOSTS"),
)

KERNEL_LIKE = st.sampled_from(
    [
        "0::/\n4:cpu,cpuacct:/a\n5:memory:/../b\n6:pids:/c/d\n7:cpuset:/\n",
        (
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n"
            "3 1 0:28 / /sys/fs/cgroup/all rw - cgroup c rw,cpu,memory,pids,cpuset\n"
        ),
        "9" * 400 + " 1\n",
        "-1\n",
        "0-3,8\n",
        "max 100000\n",
        "MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB\n",
        "simd_count 99999999999999999999\ndrm_render_minor 128\n",
        "NVRM version: Kernel Module\n",
        "1.5 x\n",
        "oom_kill -3\noom_kill 99999999999999999999\nmemory.high\n",
        "7f-80 r--p 0 8:1 7 /usr/lib/libgomp.so.1\n7f-80 r--p 0 8:1 7\n /libtorch_cpu.so",
    ]
)
TEXTS = KERNEL_LIKE | st.text(max_size=60) | st.from_regex(r"[0-9,:/\- a-z(x)]{0,30}", fullmatch=True)
NAMES = st.none() | st.lists(st.sampled_from(["nvidia0", "kfd", "dxg", "dri", "cpu.max", "0", ""]), max_size=4).map(
    tuple
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_garbage_in_every_file_never_raises(data: st.DataObject) -> None:
    """
    Whatever the files and variables hold, the probe answers, and the answer becomes JSON and back.
    """
    facts = probe_host(io=GarbageHost(data.draw), platform="linux")
    assert from_json(HostFacts, to_json(facts)) == facts
    assert facts.cpu.usable_cpus is None or facts.cpu.usable_cpus > 0
    assert facts.memory.headroom_bytes is None or facts.memory.headroom_bytes >= 0
    assert facts.process.native_threads is None or facts.process.native_threads >= 0


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_garbage_in_every_file_leaves_memory_a_record(data: st.DataObject) -> None:
    """
    What is read after a death is as unharmed by it.
    """
    facts = probe_memory(io=GarbageHost(data.draw), platform="linux")
    assert from_json(HostFacts, to_json(facts)) == facts
    assert facts.memory.oom_kills is None or facts.memory.oom_kills >= 0
    assert facts.memory.cgroup_usage_bytes is None or facts.memory.cgroup_usage_bytes >= 0


@settings(max_examples=50, deadline=None)
@given(
    environment=st.dictionaries(
        st.sampled_from(["PYTHON_CPU_COUNT", "LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK"]),
        st.text(max_size=20) | st.just("9" * 400),
    ),
    platform=st.text(min_size=1, max_size=10).filter(lambda name: name != "linux"),
)
def test_garbage_in_the_environment_elsewhere_never_raises(environment: dict[str, str], platform: str) -> None:
    """
    Whatever the variables hold, the probe answers, and the answer becomes JSON and back.
    """
    facts = probe_host(io=FakeHost(environment=environment, platform=platform, cpus=12))
    assert from_json(HostFacts, to_json(facts)) == facts
