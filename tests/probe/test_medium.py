"""
The slowest disk below a mount, through all that can stand between.
"""

import pytest

from autoloader.probe.medium import SLOWEST_FIRST, Medium, read_medium
from autoloader.probe.mounts import mount_of, parse_mountinfo
from support import FakeHost

PCI = "/sys/devices/pci0000:00/0000:00:17.0"
VIRTUAL = "/sys/devices/virtual/block"
BLOCK = "/sys/dev/block"

HDD, SSD, NVME = f"{PCI}/ata1/host0/block/sda", f"{PCI}/ata2/host1/block/sdb", f"{PCI}/nvme/nvme0/nvme0n1"

DISKS = {
    f"{HDD}/queue/rotational": "1\n",
    f"{HDD}/device/vendor": "ATA     \n",
    f"{HDD}/sda1/partition": "1\n",
    f"{SSD}/queue/rotational": "0\n",
    f"{SSD}/device/vendor": "ATA     \n",
    f"{SSD}/sdb1/partition": "1\n",
    f"{NVME}/queue/rotational": "0\n",
    f"{VIRTUAL}/dm-0/dm/name": "vg-data\n",
    f"{VIRTUAL}/dm-1/dm/name": "vg-span\n",
    f"{VIRTUAL}/dm-2/dm/name": "crypt\n",
    f"{VIRTUAL}/md0/md/level": "raid1\n",
    f"{VIRTUAL}/loop0/loop/backing_file": "/mnt/hdd/an image\n",
    f"{VIRTUAL}/loop1/loop/backing_file": "/mnt/loop/image\n",
    f"{VIRTUAL}/bcache0/bcache/running": "1\n",
}
"""
A spinning disk, two of flash, and what is made of them.
"""

LINKS = {
    f"{BLOCK}/8:0": HDD,
    f"{BLOCK}/8:1": f"{HDD}/sda1",
    f"{BLOCK}/8:17": f"{SSD}/sdb1",
    f"{BLOCK}/259:0": NVME,
    f"{BLOCK}/253:0": f"{VIRTUAL}/dm-0",
    f"{BLOCK}/253:1": f"{VIRTUAL}/dm-1",
    f"{BLOCK}/253:2": f"{VIRTUAL}/dm-2",
    f"{BLOCK}/9:0": f"{VIRTUAL}/md0",
    f"{BLOCK}/7:0": f"{VIRTUAL}/loop0",
    f"{BLOCK}/7:1": f"{VIRTUAL}/loop1",
    f"{BLOCK}/252:0": f"{VIRTUAL}/bcache0",
    "/sys/class/block/sda1": f"{HDD}/sda1",
    "/sys/class/block/sdb1": f"{SSD}/sdb1",
    "/sys/class/block/dm-0": f"{VIRTUAL}/dm-0",
    "/dev/mapper/vg-data": "/dev/dm-0",
}

PARTS = {
    "dm-0": {"sda1": f"{HDD}/sda1"},
    "dm-1": {"sda1": f"{HDD}/sda1", "sdb1": f"{SSD}/sdb1"},
    "dm-2": {"dm-0": f"{VIRTUAL}/dm-0"},
    "md0": {"sdb1": f"{SSD}/sdb1", "nvme0n1": NVME},
    "bcache0": {"sda": HDD, "nvme0n1": NVME},
}
"""
What each device made of others is made of.
"""

BTRFS = "/sys/fs/btrfs/6c7b8bc5-deff-48b9-85cd-7fba457329a1/devices"

MOUNTS = (
    "20 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n"
    "21 20 8:1 / /mnt/hdd rw - ext4 /dev/sda1 rw\n"
    "22 20 8:17 / /mnt/ssd rw - ext4 /dev/sdb1 rw\n"
    "23 20 0:30 / /mnt/nfs rw - nfs4 server:/x rw\n"
    "24 20 0:31 / /mnt/tmpfs rw - tmpfs tmpfs rw\n"
)


def ask(line: str, files: dict[str, str] | None = None) -> Medium:
    """
    Ask about the mount *line* beside those of :data:`MOUNTS`, with these *files* beside the disks.
    """
    slaves = {f"{VIRTUAL}/{name}/slaves/{part}": to for name, parts in PARTS.items() for part, to in parts.items()}
    members = {f"{BTRFS}/{name}": to for name, to in {"sda1": f"{HDD}/sda1", "sdb1": f"{SSD}/sdb1"}.items()}
    host = FakeHost(files={**DISKS, **(files or {})}, folders=(*slaves, *members), links={**LINKS, **slaves, **members})
    mounts = parse_mountinfo(f"{MOUNTS}{line}\n")
    mount = mount_of(mounts[-1].mount_point, mounts)
    assert mount is not None
    return read_medium(mount, host, mounts)


@pytest.mark.parametrize(
    ("line", "kind", "source", "devices"),
    [
        pytest.param("30 20 253:0 / /data rw - ext4 /dev/mapper/vg-data rw", "hdd", HDD, "dm-0 sda1 sda", id="lvm"),
        pytest.param(
            "30 20 253:1 / /data rw - ext4 /dev/mapper/vg-span rw",
            "hdd",
            HDD,
            "dm-1 sda1 sda sdb1 sdb",
            id="lvm-over-hdd-and-ssd",
        ),
        pytest.param(
            "30 20 253:2 / /data rw - xfs /dev/mapper/crypt rw", "hdd", HDD, "dm-2 dm-0 sda1 sda", id="crypt-over-lvm"
        ),
        pytest.param(
            "30 20 9:0 / /data rw - ext4 /dev/md0 rw", "ssd", SSD, "md0 nvme0n1 sdb1 sdb", id="raid-over-ssd-and-nvme"
        ),
        pytest.param("30 20 252:0 / /data rw - ext4 /dev/bcache0 rw", "hdd", HDD, "bcache0 nvme0n1 sda", id="bcache"),
        pytest.param("30 20 7:0 / /data rw - ext4 /dev/loop0 rw", "hdd", HDD, "loop0 sda1 sda", id="loop"),
        pytest.param(
            "30 20 0:40 /@a /data rw - btrfs /dev/sda1 rw", "hdd", HDD, "sda1 sda sdb1 sdb", id="btrfs-of-two"
        ),
        pytest.param(
            "30 20 0:40 / /data rw - btrfs /dev/mapper/vg-data rw",
            "hdd",
            HDD,
            "dm-0 sda1 sda",
            id="btrfs-unlisted-over-lvm",
        ),
        pytest.param(
            "30 20 0:40 / /data rw - btrfs /dev/sdb1 rw",
            "hdd",
            HDD,
            "sda1 sda sdb1 sdb",
            id="btrfs-by-its-second-device",
        ),
        pytest.param(
            "30 20 0:40 / /data rw - bcachefs /dev/sdb1:/dev/sda1 rw", "hdd", HDD, "sdb1 sdb sda1 sda", id="bcachefs"
        ),
        pytest.param(
            "30 20 0:40 / /data rw - overlay overlay rw,lowerdir=/mnt/ssd/a:/mnt/hdd/b,upperdir=/mnt/tmpfs/c",
            "hdd",
            HDD,
            "sdb1 sdb sda1 sda",
            id="overlay-of-three",
        ),
        pytest.param(
            "30 20 0:40 / /data rw - overlay overlay ro,lowerdir+=/mnt/ssd/a,lowerdir+=/usr",
            "ssd",
            SSD,
            "sdb1 sdb nvme0n1",
            id="overlay-6.8",
        ),
        pytest.param(
            "30 20 0:40 / /data rw - overlay overlay rw,lowerdir=/mnt/nfs/a,upperdir=/mnt/hdd/b",
            "network",
            "/proc/self/mountinfo",
            "sda1 sda",
            id="overlay-over-a-network",
        ),
    ],
)
def test_medium_of_a_stack_is_the_slowest_below(line: str, kind: str, source: str, devices: str) -> None:
    """
    Whatever stands between a mount and its disks, the slowest disk is named, and all devices from the upper end down.
    """
    assert ask(line) == (kind, source, tuple(devices.split()), True)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            "30 1 0:40 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/l,upperdir=/var/lib/docker/u",
            id="container",
        ),
        pytest.param("30 20 7:1 / /mnt/loop rw - ext4 /dev/loop1 rw", id="loop-over-itself"),
        pytest.param("30 20 0:40 / /data rw - overlay overlay rw,lowerdir=l/A:l/B", id="overlay-of-relative-layers"),
        pytest.param("30 20 0:40 / /data rw - overlay overlay", id="overlay-without-options"),
        pytest.param("30 20 0:40 / /data rw - btrfs /dev/sdz9 rw", id="btrfs-of-a-device-that-is-not-shown"),
        pytest.param("30 20 0:40 / /data rw - zfs pool/data rw", id="zfs"),
        pytest.param("30 20 253:9 / /data rw - ext4 /dev/mapper/x rw", id="device-that-is-not-shown"),
    ],
)
def test_medium_that_leads_nowhere_is_unknown(line: str) -> None:
    """
    A way that ends, or that comes back to where it began, says nothing.
    """
    found = ask(line)
    assert (found.kind, found.source, found.is_certain) == ("unknown", "/proc/self/mountinfo", False)


def test_medium_of_devices_in_a_circle_is_unknown() -> None:
    """
    Device folders that name each other, which no kernel shows, are not followed for ever.
    """
    ring = {f"{VIRTUAL}/dm-7/slaves/dm-8": f"{VIRTUAL}/dm-8", f"{VIRTUAL}/dm-8/slaves/dm-7": f"{VIRTUAL}/dm-7"}
    host = FakeHost(folders=tuple(ring), links={**ring, f"{BLOCK}/253:7": f"{VIRTUAL}/dm-7"})
    mounts = parse_mountinfo("20 1 253:7 / / rw - ext4 /dev/dm-7 rw")
    assert read_medium(mounts[0], host, mounts).kind == "unknown"


QEMU = f"{PCI}/virtio0/host2/block/sdc"
TURNS, TURNS_NOT, SAYS_NOTHING = (f"\0\ufffd\0\x3c{rate}" + "\0" * 58 for rate in ("\x1c\x20", "\0\1", "\0\0"))
"""
Page B1h of a disk with 7200 turns a minute, of one without any, and of one that says neither.
"""


@pytest.mark.parametrize(
    ("rotational", "page", "expected"),
    [
        pytest.param("1\n", TURNS, "hdd", id="told-to-turn"),
        pytest.param("0\n", TURNS_NOT, "ssd", id="told-not-to-turn"),
        pytest.param("1\n", SAYS_NOTHING, "virtual", id="told-nothing"),
        pytest.param("1\n", None, "hdd", id="turns-on-a-kernel-without-the-page"),
        pytest.param("0\n", None, "ssd", id="turns-not-on-a-kernel-without-the-page"),
    ],
)
def test_medium_of_a_qemu_scsi_disk_is_what_it_was_told_to_be(rotational: str, page: str | None, expected: str) -> None:
    """
    QEMU's ``rotation_rate`` is for its owner to set; a disk without one is as virtual as any.
    """
    files = {f"{QEMU}/queue/rotational": rotational, f"{QEMU}/device/vendor": "QEMU    \n"}
    files |= {f"{QEMU}/device/model": "QEMU HARDDISK   \n"} | (
        {} if page is None else {f"{QEMU}/device/vpd_pgb1": page}
    )
    host = FakeHost(files=files, links={f"{BLOCK}/8:32": QEMU})
    mounts = parse_mountinfo("20 1 8:32 / / rw - ext4 /dev/sdc rw")
    medium = read_medium(mounts[0], host, mounts)
    assert (medium.kind, medium.is_certain) == (expected, False)


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        pytest.param("nvme0n1", "SAMSUNG MZVL21T0HCLR-00B00", ("nvme", True), id="samsung"),
        pytest.param("nvme1n1", "Amazon Elastic Block Store", ("virtual", False), id="ebs"),
        pytest.param("nvme1n1", "Amazon EC2 NVMe Instance Storage", ("nvme", True), id="ec2-instance-store"),
        pytest.param("nvme0n1", "nvme_card-pd", ("virtual", False), id="google-persistent-disk"),
        pytest.param("nvme0n1", "nvme_card", ("nvme", True), id="google-local-ssd"),
        pytest.param("nvme0n1", "MSFT NVMe Accelerator v1.0", ("virtual", False), id="azure-remote-disk"),
        pytest.param("nvme0n1", "QEMU NVMe Ctrl", ("nvme", False), id="qemu"),
        pytest.param("sr0", "DVD-RAM GH24", ("optical", True), id="optical"),
    ],
)
def test_medium_of_a_disk_is_by_its_name_and_model(name: str, model: str, expected: tuple[str, bool]) -> None:
    """
    Clouds sell disks across a network that speak NVMe; only their models tell them from those in the machine.
    """
    folder = f"{PCI}/block/{name}"
    host = FakeHost(files={f"{folder}/device/model": f"{model}\n"}, links={f"{BLOCK}/259:5": folder})
    mounts = parse_mountinfo(f"20 1 259:5 / / rw - ext4 /dev/{name} rw")
    medium = read_medium(mounts[0], host, mounts)
    assert (medium.kind, medium.is_certain) == expected
    assert medium.devices == (name,)


def test_slowest_first_has_every_kind_once() -> None:
    """
    A kind without a place in the order could not be compared.
    """
    kinds = {"nvme", "ssd", "hdd", "optical", "virtual", "network", "memory", "unknown"}
    assert set(SLOWEST_FIRST) == kinds
    assert len(SLOWEST_FIRST) == len(kinds)
