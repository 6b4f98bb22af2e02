"""
What lies under a path on Linux: medium, file system, and the room on it.
"""

import pytest

from autoloader.facts import StorageFacts
from autoloader.probe.host_io import DiskSpace
from autoloader.probe.mounts import parse_mountinfo
from autoloader.probe.storage import read_storage
from support import FakeHost

SPACE = DiskSpace(1000, 400)
PCI = "/sys/devices/pci0000:00/0000:00:17.0"


def ask(
    line: str, disk: str | None = None, files: dict[str, str] | None = None, path: str = "/data/train"
) -> StorageFacts:
    """
    Ask about a path on the mount *line*, whose device number leads to the folder *disk* with these *files*.
    """
    mounts = parse_mountinfo(line)
    device = ":".join(map(str, mounts[0].device)) if mounts else ""
    host = FakeHost(
        files={f"{disk}/{name}": text for name, text in (files or {}).items()},
        folders=() if disk is None else (disk,),
        links={} if disk is None else {f"/sys/dev/block/{device}": disk},
        spaces={"/data": SPACE},
    )
    return read_storage(path, host, mounts)


@pytest.mark.parametrize(
    ("disk", "files", "expected"),
    [
        pytest.param(f"{PCI}/nvme/nvme0/nvme0n1", {"queue/rotational": "0\n"}, "nvme", id="nvme"),
        pytest.param(f"{PCI}/nvme/nvme0/nvme0n1/nvme0n1p2", {"partition": "2\n"}, "nvme", id="nvme-partition"),
        pytest.param(
            f"{PCI}/ata1/host0/block/sda",
            {"queue/rotational": "0\n", "device/vendor": "ATA     \n", "device/model": "Samsung SSD 870 \n"},
            "ssd",
            id="ssd",
        ),
        pytest.param(
            f"{PCI}/ata1/host0/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "ATA     \n", "device/model": "ST4000NM0035-1V4\n"},
            "hdd",
            id="hdd",
        ),
        pytest.param(
            f"{PCI}/ata1/host0/block/sda", {"device/vendor": "ATA\n"}, "unknown", id="physical-without-rotational-flag"
        ),
        pytest.param("/sys/devices/pci0000:00/virtio1/block/vda", {"queue/rotational": "1\n"}, "virtual", id="virtio"),
        pytest.param("/sys/devices/vbd-51712/block/xvda", {"queue/rotational": "0\n"}, "virtual", id="xen"),
        pytest.param(
            "/sys/devices/pci0000:00/virtio2/host2/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "Google  \n", "device/model": "PersistentDisk  \n"},
            "virtual",
            id="google-over-virtio-scsi",
        ),
        pytest.param(
            "/sys/devices/LNXSYSTM:00/VMBUS:01/host0/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "Msft    \n", "device/model": "Virtual Disk    \n"},
            "virtual",
            id="hyper-v",
        ),
        pytest.param(
            f"{PCI}/host2/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "VMware, \n", "device/model": "VMware Virtual S\n"},
            "virtual",
            id="vmware-workstation",
        ),
        pytest.param(
            f"{PCI}/host2/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "VMware  \n", "device/model": "Virtual disk    \n"},
            "virtual",
            id="vmware-esx",
        ),
        pytest.param(
            f"{PCI}/ata1/host0/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "ATA     \n", "device/model": "VBOX HARDDISK   \n"},
            "virtual",
            id="virtualbox-sata",
        ),
        pytest.param(
            f"{PCI}/ata1/host0/block/sda",
            {"queue/rotational": "1\n", "device/vendor": "ATA     \n", "device/model": "QEMU HARDDISK   \n"},
            "virtual",
            id="qemu-sata",
        ),
        pytest.param("/sys/devices/virtual/block/zram0", {"queue/rotational": "0\n"}, "memory", id="compressed-memory"),
        pytest.param("/sys/devices/virtual/block/ram0", {"queue/rotational": "0\n"}, "memory", id="ram-disk"),
        pytest.param("/sys/devices/virtual/block/loop0", {"queue/rotational": "1\n"}, "unknown", id="loop"),
        pytest.param("/sys/devices/virtual/block/dm-0", {"queue/rotational": "1\n"}, "unknown", id="device-mapper"),
        pytest.param("/sys/devices/virtual/block/md0", {"queue/rotational": "1\n"}, "unknown", id="raid"),
        pytest.param("/sys/devices/platform/mmc0/block/mmcblk0", {"queue/rotational": "0\n"}, "unknown", id="sd-card"),
        pytest.param(None, {}, "unknown", id="no-sysfs"),
    ],
)
def test_kind_of_a_disk_is_what_its_bus_lets_be_known(disk: str | None, files: dict[str, str], expected: str) -> None:
    """
    The rotational flag counts on a physical bus only: hypervisors let it say anything.
    """
    facts = ask("20 1 8:2 / /data rw - ext4 /dev/disk rw", disk, files)
    assert (facts.kind, facts.filesystem, facts.device) == (expected, "ext4", "/dev/disk")


def test_kind_of_a_partition_is_its_disks() -> None:
    """
    A partition has no queue of its own: the folder above it has.
    """
    disk = f"{PCI}/ata1/host0/block/sdb"
    host = FakeHost(
        files={
            f"{disk}/sdb3/partition": "3\n",
            f"{disk}/queue/rotational": "1\n",
            f"{disk}/device/vendor": "ATA     \n",
        },
        links={"/sys/dev/block/8:19": f"{disk}/sdb3"},
    )
    facts = read_storage("/data", host, parse_mountinfo("20 1 8:19 / /data rw - xfs /dev/sdb3 rw"))
    assert facts.kind == "hdd"
    assert facts.sources["kind"] == disk


@pytest.mark.parametrize(
    ("line", "kind", "size"),
    [
        pytest.param("20 1 0:25 / /data rw - tmpfs tmpfs rw,size=8m", "memory", 1000, id="tmpfs"),
        pytest.param("20 1 0:25 / /data rw - ramfs ramfs rw", "memory", 1000, id="ramfs"),
        pytest.param("20 1 0:40 / /data rw - nfs4 server:/export rw,vers=4.2", "network", None, id="nfs4"),
        pytest.param("20 1 0:40 / /data rw - nfs server:/export rw,vers=3", "network", None, id="nfs3"),
        pytest.param("20 1 0:40 / /data rw - lustre 10.0.0.1@tcp:/fs rw", "network", None, id="lustre"),
        pytest.param("20 1 0:40 / /data rw - cifs //server/share rw", "network", None, id="cifs"),
        pytest.param("20 1 0:40 / /data rw - ceph 10.0.0.1:6789:/ rw", "network", None, id="ceph"),
        pytest.param(
            "20 1 0:40 / /data rw - 9p drvfs rw,aname=drvfs;path=C:\\134;uid=1000", "network", None, id="wsl2-mnt-c"
        ),
        pytest.param("20 1 0:40 / /data rw - drvfs C: rw", "network", None, id="wsl1-mnt-c"),
        pytest.param("20 1 0:40 / /data rw - virtiofs share rw", "network", None, id="virtiofs"),
        pytest.param(
            "20 1 0:40 /me /data rw - fakeowner /run/host_mark/Users rw,fakeowner", "network", None, id="docker-desktop"
        ),
        pytest.param("20 1 0:40 / /data rw - vmhgfs .host:/ rw", "network", None, id="vmware-folder"),
        pytest.param("20 1 0:40 / /data rw - prl_fs share rw", "network", None, id="parallels-folder"),
        pytest.param("20 1 0:40 / /data rw - dvs /home rw", "network", None, id="cray-dvs"),
        pytest.param("20 1 0:40 / /data rw - fuse.gcsfuse bucket rw", "network", None, id="gcsfuse"),
        pytest.param("20 1 0:40 / /data rw - fuse.juicefs JuiceFS:x rw", "network", None, id="fuse-of-any-name"),
        pytest.param("20 1 0:40 / /data rw - fuse dataset rw", "network", None, id="fuse-without-a-name"),
        pytest.param("20 1 0:40 / /data rw - fuse.mergerfs a:b rw", "unknown", 1000, id="local-fuse"),
        pytest.param("20 1 0:40 / /data rw - fuse.fuse-overlayfs x rw", "unknown", 1000, id="rootless-container"),
        pytest.param("20 1 0:40 / /data rw - overlay overlay rw,upperdir=/u", "unknown", 1000, id="overlay"),
        pytest.param("20 1 0:40 / /data rw - btrfs /dev/sdc5 rw,subvol=/", "unknown", 1000, id="btrfs"),
        pytest.param("20 1 0:40 / /data rw - zfs pool/data rw", "unknown", 1000, id="zfs"),
        pytest.param("20 1 0:40 / /data rw - autofs auto rw", "unknown", None, id="automounter"),
    ],
)
def test_kind_of_a_file_system_without_a_disk_is_by_its_type(line: str, kind: str, size: int | None) -> None:
    """
    Device numbers with major 0 lead to no disk; network mounts and automounters are not asked for their size.
    """
    facts = ask(line)
    assert (facts.kind, facts.size_bytes) == (kind, size)


def test_storage_of_a_path_has_mount_room_and_sources() -> None:
    """
    A path that is not there yet is answered for by its mount.
    """
    facts = ask("20 1 8:2 / /data rw - ext4 /dev/sda2 rw", path="/data/not/there/yet")
    assert facts == StorageFacts(
        path="/data/not/there/yet",
        mount_point="/data",
        filesystem="ext4",
        device="/dev/sda2",
        kind="unknown",
        confidence="low",
        size_bytes=1000,
        free_bytes=400,
        sources={
            "path": "realpath",
            "mount_point": "/proc/self/mountinfo",
            "filesystem": "/proc/self/mountinfo",
            "device": "/proc/self/mountinfo",
            "kind": "/proc/self/mountinfo",
            "confidence": "/proc/self/mountinfo",
            "size_bytes": "statvfs",
            "free_bytes": "statvfs",
        },
    )


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        pytest.param(
            ["20 1 8:2 / /data rw - ext4 /dev/sda2 rw", "21 20 0:9 / /data rw - tmpfs tmpfs rw"],
            "/data/x",
            ("tmpfs", "memory"),
            id="mount-over-mount",
        ),
        pytest.param(
            ["20 1 8:2 / / rw - ext4 /dev/sda2 rw", "21 20 0:9 / /my\\040data rw - nfs4 server:/a\\040b rw"],
            "/my data/x",
            ("nfs4", "network"),
            id="path-with-a-space",
        ),
    ],
)
def test_storage_of_a_path_is_the_mount_that_holds_it(lines: list[str], path: str, expected: tuple[str, str]) -> None:
    """
    The last of several mounts on one folder counts, and the kernel's octal escapes are undone.
    """
    facts = ask("\n".join(lines), path=path)
    assert (facts.filesystem, facts.kind) == expected


def test_storage_of_a_link_is_its_targets() -> None:
    """
    Links are resolved before the mount is looked for.
    """
    host = FakeHost(links={"/home/me/data": "/mnt/nfs/data"})
    mounts = parse_mountinfo("20 1 8:2 / / rw - ext4 a rw\n21 20 0:9 / /mnt/nfs rw - nfs4 server:/x rw\n")
    facts = read_storage("/home/me/data", host, mounts)
    assert (facts.path, facts.device) == ("/mnt/nfs/data", "server:/x")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param(None, "20 1 8:2 / / rw - ext4 a rw", id="no-working-directory"),
        pytest.param("/data", "", id="no-mounts"),
        pytest.param("/data", "20 1 8:2 / /other rw - ext4 a rw", id="no-mount-holds-it"),
    ],
)
def test_storage_that_cannot_be_found_is_unknown(path: str | None, line: str) -> None:
    """
    Without a path or a mount all but the path stays unknown.
    """
    facts = read_storage(path, FakeHost(), parse_mountinfo(line))
    assert (facts.path, facts.kind, facts.mount_point, facts.size_bytes) == (path, None, None, None)
