"""
A recorded host without names: nothing that tells who and where is left, and the facts are the same.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace, MainModule, PythonThread
from autoloader.probe.recording import Recorder, ReplayedHost
from autoloader.records import to_json
from support import FakeHost

HOSTS = sorted(
    path for path in (Path(__file__).parent.parent / "hosts").rglob("*.json") if not path.name.endswith(".truth.json")
)

AWKWARD = (
    *(
        "python",
        "cpython",
        "apple",
        "ryzen",
        "dev",
        "proc",
        "sys",
        "cpu",
        "memory",
        "node0",
        "cgroup",
        "tmp",
        "nvme0n1",
        "linux",
        "a",
        "user",
        "root",
    ),
    *("ext4", "overlay", "vm", "max", "unified", "torch", "libgomp", "microsoft", "shm", "0", "none", "false", "gpu"),
)

NAMING = {"path", "mount_point", "device", "temp_dir", "reimported_main", "interpreter", "other_threads", "release"}
"""
Facts that are names and paths, which may be replaced.
"""

CONTAINER = "4f1c" * 16
POD = "8a3b5c6d-1234-4abc-9def-0123456789ab"
GPUS = ("11112222-1234-4abc-9def-0123456789ab", "11113333-1234-4abc-9def-0123456789ab")


def recorded(host: Any, private: dict[str, str], path: str | None = None, *, full: bool = False) -> Any:
    """
    Return the document of one probe, as it comes out of a file.
    """
    recorder = Recorder(host)
    probe_host(io=recorder, path=path, full=full)
    return json.loads(json.dumps(recorder.document(private, path)[0]))


def without_names(facts: Any) -> Any:
    """
    Return facts without those that are names, and of their sources only which there are.
    """
    if isinstance(facts, dict):
        kept = {name: without_names(value) for name, value in facts.items() if name not in NAMING | {"sources"}}
        return {
            **kept,
            **{name: facts[name] is None for name in NAMING & set(facts)},
            "of": sorted(facts.get("sources", ())),
        }
    return facts


def same_facts(host: Any, document: Any, path: str | None = None) -> bool:
    """
    Return whether a document gives the facts of a host, names aside, and has just the answers that are asked for.
    """
    there, replayed = probe_host(io=host, path=path), ReplayedHost(document)
    here = probe_host(io=replayed, path=replayed.path)
    assert without_names(to_json(here)) == without_names(to_json(there))
    return replayed.unanswered == replayed.unused == set()


def a_machine(name: str) -> FakeHost:
    """
    Return a machine with a user, a host and a volume group of one name, in control groups of that name.
    """
    home, group = f"/home/{name}", f"/lxc/{name}-01.slice/{name}"
    mounts = f"""\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /dev rw - devtmpfs udev rw
23 21 0:20 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw
24 21 0:30 / /tmp rw - tmpfs tmpfs rw
30 21 253:0 /{name} {home} rw - xfs /dev/mapper/{name}--vg-{name} rw
31 21 0:40 / {home}/merged rw - overlay overlay rw,lowerdir={home}/b:{home}/a,upperdir={home}/u,workdir={home}/w
32 21 0:41 / {home}/my\\040net rw - nfs4 {name}.corp:/export{home} rw,addr=10.0.0.7
"""
    disk = "/sys/devices/pci0000:00/nvme/nvme0/nvme0n1"
    return FakeHost(
        files={
            "/proc/self/mountinfo": mounts,
            "/proc/self/cgroup": f"0::{group}\n",
            "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB\n",
            "/proc/cpuinfo": "model name : cpu\nflags : a\nSerial\t\t: 00000000deadbeef\n",
            "/proc/self/maps": "7f00-7f10 r-xp 0 08:01 12   /opt/lib/libgomp.so.1\n",
            "/proc/self/task/1/x": "",
            "/sys/devices/system/cpu/online": "0-3\n",
            "/sys/devices/system/node/has_cpu": "0\n",
            "/sys/devices/system/node/node0/cpulist": "0-3\n",
            "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1000 kB\n",
            f"/sys/fs/cgroup{group}/cpu.max": "200000 100000\n",
            f"/sys/fs/cgroup{group}/memory.max": "512000\n",
            f"/sys/fs/cgroup{group}/memory.current": "1000\n",
            f"/sys/fs/cgroup{group}/cpuset.cpus.effective": "0-1\n",
            f"/sys/fs/cgroup{group}/pids.max": "100\n",
            f"/sys/fs/cgroup/lxc/{name}-01.slice/memory.max": "max\n",
            f"{disk}/queue/rotational": "0\n",
            f"{disk}/device/model": "Fast\n",
            "/sys/devices/virtual/block/dm-0/slaves/nvme0n1/x": "",
            "/dev/nvidia0": "",
            "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Device Minor: 0\n",
        },
        links={
            "/sys/dev/block/253:0": "/sys/devices/virtual/block/dm-0",
            "/sys/devices/virtual/block/dm-0/slaves/nvme0n1": disk,
            f"{home}/link": f"{home}/merged/data",
        },
        folders=("/dev/shm", f"{home}/data"),
        spaces={"/dev/shm": DiskSpace(64, 32), f"{home}/data": DiskSpace(10, 5)},
        release="5.15.0-microsoft-standard-WSL2",
        main=MainModule(None, f"{home}/{name}_project/train.py", True),
        threads=(PythonThread("worker", "torch.utils.x"), PythonThread("mine", f"{name}_lib.loop")),
        program=f"{home}/venv/bin/python3",
        cpus=4,
    )


@pytest.mark.parametrize("file", HOSTS, ids=lambda file: file.stem)
def test_recorded_machine_has_the_same_facts_whatever_its_names(file: Path) -> None:
    """
    Words that the kernel and its files are made of lose no fact as names of users and hosts.
    """
    document = json.loads(file.read_text(encoding="utf-8"))
    for kind in ("user", "host"):
        again = recorded(ReplayedHost(document), dict.fromkeys(AWKWARD, kind))
        assert same_facts(ReplayedHost(document), again)


@pytest.mark.parametrize("place", ["data", "merged/x", "my net/x", "link", None])
@pytest.mark.parametrize("name", [*AWKWARD, "alicexx", "web01", "ana.b", "web-01", "Bea"])
def test_machine_of_any_name_has_the_same_facts(name: str, place: str | None) -> None:
    """
    Its folders, groups and volumes carry the name; control groups, storage and accelerator are found again.
    """
    path = None if place is None else f"/home/{name}/{place}"
    for private in ({name: "user", f"/home/{name}": "user"}, {name: "host"}):
        document = recorded(a_machine(name), private, path)
        assert same_facts(a_machine(name), document, path)
        assert f"home/{name}" not in json.dumps(document) or name in {"user", "root"}


@pytest.mark.parametrize("name", ["alicexx", "web01", "ana.b"])
def test_rare_name_is_nowhere_left(name: str) -> None:
    """
    Not in keys, not joined on with other words, not in capitals.
    """
    host = a_machine(name)
    host.files[f"/data/{name}_data/x"] = host.files[f"/data/tmp-{name.upper()}/x"] = ""
    host.folders += (f"/dev/{name}-vg",)
    for path in (f"/home/{name}/data", f"/data/{name}_data", f"/data/tmp-{name.upper()}", "/"):
        text = json.dumps(recorded(host, {name: "host"}, path))
        assert name not in text.casefold()
        assert name not in text.casefold().replace("--", "-")


def test_question_names_and_kernel_paths_stay() -> None:
    """
    A user of such a name loses nothing.
    """
    words = ("python", "uname", "affinity", "environment", "meminfo", "online", "devices")
    document = recorded(a_machine("ana"), dict.fromkeys(words, "user"))
    assert set(document["answers"]) == set(recorded(a_machine("ana"), {})["answers"])
    assert {"/proc/meminfo", "/sys/devices/system/cpu/online"} <= set(document["answers"]["read_text"])


def test_two_folders_stay_two() -> None:
    """
    Also where the stand-in of one is the name of the other.
    """
    host = FakeHost(folders=("/home/user/x", "/home/ana/x"))
    recorder = Recorder(host)
    for path in ("/home/ana", "/home/user", "/home/bob", "/home"):
        recorder.list_dir(path)
    answers = recorder.document({"ana": "user"})[0]["answers"]["list_dir"]
    assert list(answers) == ["/home/user", "/home/user-2", "/home/user-3", "/home"]
    assert answers["/home"] == ["user", "user-2"]


@pytest.mark.parametrize(
    ("filesystem", "source", "replaced"),
    [
        pytest.param("fuse.davfs", "https://me:pw@davhost.corp/dav", "https://server/dav", id="dav"),
        pytest.param("orangefs", "tcp://pvfs7:3334/orangefs", "tcp://server/orangefs", id="orangefs"),
        pytest.param("panfs", "panfs://10.9.8.2:global/data", "panfs://server/data", id="panfs"),
        pytest.param("fuse.sshfs", "sshuser@sshhost.corp:", "user@server:", id="ssh-home"),
        pytest.param("fuse.sshfs", "sshuser@sshhost:data/set", "user@server:data/set", id="ssh-relative"),
        pytest.param("fuse.sshfs", "sshuser@sshhost:/data", "user@server:/data", id="ssh"),
        pytest.param("fuse.glusterfs", "glusterhost:vol0", "server:vol0", id="gluster"),
        pytest.param("fuse.glusterfs", "g1,g2:/vol0", "server:/vol0", id="gluster-two"),
        pytest.param(
            "ceph", f"cephuser@{POD}.cephfs=/x", "user@00000001-0000-0000-0000-000000000000.cephfs=/x", id="ceph"
        ),
        pytest.param("ceph", "[fd00::7]:6789,[fd00::8]:6789:/", "server:/", id="ceph-ipv6"),
        pytest.param("wekafs", "wekahost1,wekahost2/default", "server/default", id="weka"),
        pytest.param("cifs", r"\134\134winhost\134share", r"\134\134server\134share", id="windows"),
        pytest.param("cifs", "//winhost/share", "//server/share", id="cifs"),
        pytest.param("nfs4", "filer.corp:/export/home/ana", "server:/export/home/user", id="nfs"),
        pytest.param("lustre", "10.0.0.1@o2ib:10.0.0.2@o2ib:/fs", "server:/fs", id="lustre"),
        pytest.param("9p", r"C:\134", r"C:\134", id="drive"),
        pytest.param("fuse.mergerfs", "/mnt/a:/mnt/b", "/mnt/a:/mnt/b", id="local-fuse"),
        pytest.param("vmhgfs", ".host:/", ".host:/", id="shared-folder"),
        pytest.param("tmpfs", "tmpfs", "tmpfs", id="none"),
        pytest.param("zfs", "tank/home/bob", "tank/home/user", id="zfs"),
    ],
)
def test_mount_names_no_server_and_no_user(filesystem: str, source: str, replaced: str) -> None:
    """
    Each file system writes its servers in another way.
    """
    line = f"30 21 0:40 / /data rw - {filesystem} {source} rw"
    host = FakeHost(files={"/proc/self/mountinfo": f"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n{line}\n"})
    text = recorded(host, {"tmpfs": "host"}, "/data")["answers"]["read_text"]["/proc/self/mountinfo"]
    assert text.splitlines()[1] == f"30 21 0:40 / /data rw - {filesystem} {replaced} rw"


@pytest.mark.parametrize(
    ("variables", "replaced"),
    [
        pytest.param({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, {"KUBERNETES_SERVICE_HOST": "server"}, id="kubernetes"),
        pytest.param(
            {"PBS_JOBID": "12[3].pbs.corp", "NCPUS": "4"}, {"PBS_JOBID": "12[3].server", "NCPUS": "4"}, id="pbs"
        ),
        pytest.param({"LSB_MCPU_HOSTS": "h7 6 h9 2 h7 1"}, {"LSB_MCPU_HOSTS": "host1 6 host2 2 host1 1"}, id="lsf"),
        pytest.param({"TORCHELASTIC_RUN_ID": "ana-7"}, {"TORCHELASTIC_RUN_ID": "run"}, id="torchrun"),
        pytest.param(
            {"APPTAINER_CONTAINER": "/home/ana/x.sif"}, {"APPTAINER_CONTAINER": "/home/user/x.sif"}, id="apptainer"
        ),
    ],
)
def test_variable_names_nobody_and_keeps_its_facts(variables: dict[str, str], replaced: dict[str, str]) -> None:
    """
    That it is set stays, and so do the counts.
    """
    host = FakeHost(environment=variables)
    document = recorded(host, {"ana": "user"})
    assert document["answers"]["environment"] == replaced
    assert same_facts(host, document)


@pytest.mark.parametrize(
    "visible", [f"GPU-{GPUS[1]}", "GPU-11113,GPU-11112", "GPU-0000", f"MIG-GPU-{GPUS[0]}/1/0", "1,0"]
)
def test_gpu_is_found_by_the_stand_in_of_its_uuid(visible: str) -> None:
    """
    Also by the beginning of the UUID; what named no device still names none.
    """
    files = {f"/dev/nvidia{number}": "" for number in range(2)}
    for number, uuid in enumerate(GPUS):
        address = f"0000:0{number}:00.0"
        files[f"/proc/driver/nvidia/gpus/{address}/information"] = f"Device Minor: {number}\nGPU UUID: GPU-{uuid}\n"
        files[f"/sys/bus/pci/devices/{address}/numa_node"] = f"{number}\n"
    host = FakeHost(files=files, environment={"CUDA_VISIBLE_DEVICES": visible})
    document = recorded(host, {})
    assert same_facts(host, document)
    assert "1111" not in json.dumps(document)


def test_containers_and_pods_have_numbers() -> None:
    """
    The same one everywhere, and the beginning of an id the beginning of its number; ids with ``_`` count as well.
    """
    group = f"/kubepods/pod{POD}/{CONTAINER}"
    host = FakeHost(
        files={
            "/proc/self/cgroup": f"0::{group}\n1:name=systemd:/kubepods-pod{POD.replace('-', '_')}.slice\n",
            "/proc/self/mountinfo": f"21 1 8:1 /var/{CONTAINER}-init / rw - ext4 /dev/sda1 rw\n"
            "22 21 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
            f"/sys/fs/cgroup{group}/cpu.max": "100000 100000\n",
            "/run/.containerenv": 'name="ana"',
        },
        folders=(f"/run/{CONTAINER[:12]}",),
    )
    document = recorded(host, {CONTAINER[:12]: "host"}, f"/run/{CONTAINER[:12]}")
    text = json.dumps(document)
    assert same_facts(host, document, f"/run/{CONTAINER[:12]}")
    assert not [word for word in (CONTAINER[:12], POD[:8], "ana") if word in text]
    assert f"pod{2:08x}-0000-0000-0000-000000000000/{1:012x}{'0' * 52}" in text
    assert f"pod{2:08x}_0000_" in text
    assert document["path"] == f"/run/{1:012x}"


def test_serial_of_a_board_is_left_out() -> None:
    """
    The digits stay as many.
    """
    document = recorded(a_machine("ana"), {})
    assert "Serial\t\t: 0000000000000000\n" in document["answers"]["read_text"]["/proc/cpuinfo"]
