"""
macOS: what every Python tells, and the variables of the kernel.

Source: sysctl(3); Apple, "Determining system capabilities" (hw.perflevel, hw.optional) and "About the Rosetta
translation environment" (sysctl.proc_translated). Nothing of this was run on macOS.
"""

from ..facts import AcceleratorFacts, CpuFacts, HostFacts, MemoryFacts, NumaFacts, SystemFacts
from . import fallback
from .host_io import HostIO
from .readings import Readings


def collect(io: HostIO, path: str | None = None) -> HostFacts:
    """
    Read every fact that macOS tells.

    Args:
        io: The host.
        path: The place whose storage is asked about; the working directory without one.
    """
    facts = fallback.collect(io, path)
    return facts._replace(
        system=_with_version(facts.system, io),
        cpu=_with_kinds(facts.cpu, io),
        numa=_one_node(),
        memory=_with_total(facts.memory, io),
        accelerator=_read_accelerator(io),
    )


collect_memory = fallback.collect_memory


def _with_version(system: SystemFacts, io: HostIO) -> SystemFacts:
    readings = Readings()
    version = io.sysctl_text("kern.osproductversion")
    readings.put("distribution", version and f"macOS {version}", "sysctl kern.osproductversion")
    if io.sysctl_number("sysctl.proc_translated") == 1:  # Rosetta runs a Python for Intel on Apple silicon
        readings.put("architecture", "arm64", "sysctl sysctl.proc_translated")
    return readings.extend(system)


def _with_kinds(cpu: CpuFacts, io: HostIO) -> CpuFacts:
    """
    Add the processor's name, its cores, and how many are fast. Level 0 is the fastest.
    """
    readings = Readings()
    readings.put("model", io.sysctl_text("machdep.cpu.brand_string"), "sysctl machdep.cpu.brand_string")
    readings.put("physical", io.sysctl_number("hw.physicalcpu"), "sysctl hw.physicalcpu")
    readings.put("sockets", io.sysctl_number("hw.packages"), "sysctl hw.packages")
    levels = io.sysctl_number("hw.nperflevels") or 1
    counts = [io.sysctl_number(f"hw.perflevel{level}.logicalcpu") for level in range(levels)] if levels > 1 else []
    known = [count for count in counts if count is not None]
    if known and len(known) == len(counts):
        readings.put("performance_cpus", known[0], "sysctl hw.perflevel0.logicalcpu")
        readings.put("efficiency_cpus", sum(known[1:]), "sysctl hw.perflevel1.logicalcpu")
    return readings.extend(cpu)


def _one_node() -> NumaFacts:
    readings = Readings()
    readings.put("nodes", 1, "macOS has one memory node")
    readings.put("cpu_nodes", 1, "macOS has one memory node")
    return readings.build(NumaFacts)


def _with_total(memory: MemoryFacts, io: HostIO) -> MemoryFacts:
    readings = Readings()
    if memory.total_bytes is None:
        readings.put("total_bytes", io.sysctl_number("hw.memsize"), "sysctl hw.memsize")
    return readings.extend(memory)


def _read_accelerator(io: HostIO) -> AcceleratorFacts:
    """
    Find the GPU that each Apple silicon has. In a virtual machine it may be missing, and on Intel torch uses none.
    """
    readings = Readings()
    is_apple = io.sysctl_number("hw.optional.arm64")
    if is_apple == 1 and io.sysctl_number("kern.hv_vmm_present") == 0:
        readings.put("kind", "mps", "sysctl hw.optional.arm64")
        readings.put("devices", 1, "sysctl hw.optional.arm64")
    elif is_apple == 0:
        readings.put("devices", 0, "sysctl hw.optional.arm64")
    return readings.build(AcceleratorFacts)
