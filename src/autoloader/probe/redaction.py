"""
A host's answers without the names of people and machines, so that a replay still gives the same facts.

A name is replaced where it can be one: in paths, in what is mounted, in values of the environment. The kernel's own
paths and words stay. One name, and one id, has the same stand-in everywhere, keys included.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .interpreter import HARMLESS_THREADS
from .mount_names import MountNames
from .private_ids import StandIns

BY_PATH = frozenset(
    {
        *("read_text", "list_dir", "real_path", "is_writable", "disk_space", "drive_kind", "windows_volume"),
        *("mac_volume", "timed_reads"),
    }
)
"""
The questions whose argument is a path.
"""

FIXED = frozenset(
    {
        *("platform", "python", "libc", "start_methods", "loaded_modules", "torch_accelerators", "resource_limit"),
        *("sysctl_number", "sysctl_text", "windows_processors", "windows_version", "windows_processor_name"),
        *("windows_job", "processor_details", "launcher_affinity"),
    }
)
"""
The questions whose answers name neither people nor machines.
"""

HOME_PARENTS = frozenset({"home", "homes", "users"})
"""
Folders whose folders are named after people.
"""

NOBODYS_HOMES = frozenset({"all users", "default", "host", "public", "root", "shared", "user"})

COMMON_WORDS = frozenset(
    {
        *("admin", "app", "appdata", "apps", "aux", "bin", "bind", "boot", "bridge", "btrfs", "build", "cache"),
        *("card", "cgroup", "cgroup2", "class", "code", "conda", "config", "container", "containers", "content"),
        *("control", "cpu", "cpus", "cpuset", "cuda", "data", "dataset", "datasets", "debug", "default", "deleted"),
        *("dev", "devices", "diff", "disk", "docker", "dri", "driver", "drivers", "dxg", "env", "envs", "etc"),
        *("events", "exe", "ext2", "ext3", "ext4", "fabric", "false", "fat32", "file", "files", "firmware", "fuse"),
        *("git", "global", "gpu", "gpus", "group", "guest", "hardware", "home", "host", "hosts", "image", "images"),
        *("info", "init", "internal", "job", "jobs", "kernel", "kfd", "kube", "kubepods", "kvm", "layers", "lib"),
        *("lib32", "lib64", "libexec", "libpod", "linux", "local", "localhost", "lower", "lowerdir", "lxc"),
        *("machine", "main", "mapper", "maps", "max", "media", "mem", "memory", "merged", "microsoft", "mig"),
        *("mnt", "module", "mount", "mounts", "namespace", "net", "nfs", "nfs4", "node", "nodes", "none"),
        *("notebook", "nvgpu", "nvhost", "nvidia", "opt", "overlay", "overlay2", "packages", "path", "pids", "pod"),
        *("podman", "proc", "process", "program", "programs", "public", "quota", "rank", "release", "root"),
        *("rootfs", "run", "sbin", "scope", "scratch", "script", "scripts", "sdk", "self", "server", "service"),
        *("session", "share", "shared", "shm", "site", "slice", "slurm", "snapshots", "source", "src", "srv"),
        *("standard", "stat", "step", "storage", "store", "swap", "sys", "sysfs", "system", "systemd", "task"),
        *("tasks", "temp", "test", "tests", "tmp", "tmpfs", "train", "true", "uid", "unified", "upper", "upperdir"),
        *("user", "users", "usr", "var", "venv", "version", "virtual", "vm", "volume", "volumes", "windows"),
        *("work", "workdir", "worker", "workspace", "wsl", "wsl2", "x86", "xfs", "zfs"),
    }
)
"""
Words of paths and of the kernel's files; a user or a host of such a name is replaced in home folders only.
"""

_DEVICE = re.compile(
    r"(?:sd|hd|vd|xvd)[a-z]{1,2}[0-9]*|(?:nvme|nvidia|dm-|md|mmcblk|nbd|loop|z?ram|sr|renderd)[0-9].*"
    r"|lib(?:torch|zmq|openblas|scipy_openblas|gomp|omp|iomp5|mkl|blis).*"
)
_PROGRAM = re.compile("python|pypy|graalpy|mayapy|hython")
_TOKEN = re.compile(r"[^\W_]+")
_SERIAL = re.compile(r"^(Serial[ \t]*:[ \t]*)([0-9A-Fa-f]+)", re.MULTILINE)
_BUILDER = re.compile(r"[\w.+-]+@[\w.-]+")
_MARKS_ONLY = frozenset({"/.dockerenv", "/run/.containerenv"})
_KERNELS_OWN = ("/proc/", "/sys/", "/etc/os-release", "/usr/lib/os-release", "/run/systemd/container")


def is_kernels(path: str) -> bool:
    """
    Return whether a path is one that the kernel names, without the groups and device names that people chose.
    """
    return path.startswith(("/proc/", "/sys/")) and not path.startswith(("/sys/fs/cgroup", "/sys/class/block/"))


class Redaction:
    """
    The answers of one host with stand-ins for its names.

    Args:
        answers: By question, as :class:`~autoloader.probe.recording.Recorder` keeps them.
        private: Names of users and hosts, and what stands in their place; a key with a slash is a home folder.
    """

    def __init__(self, answers: Mapping[str, Any], private: Mapping[str, str]) -> None:
        self._answers = answers
        self._homes = {path for path in private if "/" in path or "\\" in path}
        self._private = {name.casefold(): kind for name, kind in private.items() if name not in self._homes}
        words = _vocabulary(answers)
        self.common = tuple(name for name in private if name not in self._homes and _is_common(name, words))
        """Names that also are words of the system, and are replaced in home folders only."""
        rare = sorted((n for n in private if n not in self._homes and n not in self.common), key=len, reverse=True)
        names = "|".join(re.escape(name).replace(r"\-", "-{1,2}") for name in rare)
        self._names = re.compile(rf"(?<![^\W_])(?:{names})(?![^\W_])", re.IGNORECASE) if rare else None
        self.ids = StandIns(_texts(answers))
        self._taken: dict[tuple[str, str], str] = {}
        self._mounts = MountNames(self.path, self.words)

    def answers(self) -> dict[str, Any]:
        """
        Return the answers, questions and kernel's files as they are.
        """
        return {question: self._answer(question, answer) for question, answer in self._answers.items()}

    def words(self, text: str) -> str:
        """
        Replace ids, and names that stand alone or are joined on with anything but letters and digits.
        """
        text = self.ids(text)
        if self._names is None:
            return text
        return self._names.sub(lambda found: self._private[found[0].replace("--", "-").casefold()], text)

    def path(self, text: str) -> str:
        """
        Replace names in a path, part by part: what lies in one folder still does, and two paths stay two.
        """
        if text.startswith(("/proc/", "/sys/")):
            return self.ids(text) if is_kernels(text) else self.words(text)
        parts, before = re.split(r"([/\\])", text), ""
        for place, part in enumerate(parts):
            if place % 2 == 0 and part:
                parts[place] = self._part(before, part)
            before += part
        return "".join(parts)

    def _part(self, before: str, part: str) -> str:
        wanted = self._stand_in(before, part)
        found, number = wanted, 1
        while self._taken.setdefault((before, found), part) != part:
            number += 1
            found = f"{wanted}-{number}"
        return found

    def _stand_in(self, before: str, part: str) -> str:
        replaced, folded = self.words(part), part.casefold()
        if f"{before}{part}" in self._homes:
            return self._private.get(folded, "user")
        parent = re.split(r"[/\\]", before)[-2:][0].casefold()
        if replaced == part and parent in HOME_PARENTS and folded not in NOBODYS_HOMES:
            return self._private.get(folded, "user")
        return replaced

    def _answer(self, question: str, answer: Any) -> Any:
        if question in FIXED or answer is None:
            return answer
        if question in BY_PATH:
            return {self.path(path): self._by_path(question, path, item) for path, item in answer.items()}
        if question == "environment":
            return {name: self._variable(name, value) for name, value in answer.items()}
        if question in {"working_directory", "temp_dir", "interpreter"}:
            return self.path(answer)
        if question == "main_module":
            return {**answer, "spec_name": self._plain(answer["spec_name"]), "file": self._file(answer["file"])}
        return self._plain(answer)

    def _file(self, path: str | None) -> str | None:
        return None if path is None else self.path(path)

    def _plain(self, value: Any) -> Any:
        """
        Replace names in all values, and no keys: these are the fields of our records.
        """
        if isinstance(value, Mapping):
            return {key: self._plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._plain(item) for item in value]
        return self.words(value) if isinstance(value, str) else value

    def _by_path(self, question: str, path: str, answer: Any) -> Any:
        if answer is None:
            return None
        if question == "read_text":
            return self._content(path, answer)
        if question == "real_path":
            return self.path(answer)
        if question == "list_dir":
            return [self.path(f"{path.rstrip('/')}/{name}").rpartition("/")[2] for name in answer]
        if question in {"windows_volume", "mac_volume"}:
            return {name: self._of_volume(name, value) for name, value in answer.items()}
        return answer

    def _of_volume(self, name: str, value: Any) -> Any:
        if value is None or name not in {"mount_point", "device"}:
            return value
        return self.path(value) if name == "mount_point" else self._mounts.source(value, crosses_network=True)

    def _content(self, path: str, text: str) -> str:
        """
        Replace names in the text of a file: in the kernel's only where it holds paths and groups, or tells serials.
        """
        if path in _MARKS_ONLY:
            return ""
        if path == "/proc/self/mountinfo":
            return self._mounts(text)
        if path == "/proc/self/cgroup":
            return re.sub(
                r"^([0-9]*:[^:\n]*:)(.*)$", lambda line: line[1] + self.words(line[2]), text, flags=re.MULTILINE
            )
        if path == "/proc/self/maps":
            return re.sub(r"(?<= )/.*$", lambda found: self.path(found[0]), text, flags=re.MULTILINE)
        if path.endswith("/loop/backing_file"):
            return self.path(text)
        if path == "/proc/cpuinfo":
            return _SERIAL.sub(lambda found: found[1] + "0" * len(found[2]), text)
        if path.startswith("/proc/driver/nvidia/"):
            return self.words(_BUILDER.sub("user@server", text))
        return self.ids(text) if path.startswith(_KERNELS_OWN) else self.words(text)

    def _variable(self, name: str, value: str) -> str:
        """
        Replace the names in a variable; of those of clusters keep that they are set, and their counts.
        """
        if name in {"KUBERNETES_SERVICE_HOST", "TORCHELASTIC_RUN_ID"}:
            return value and {"KUBERNETES_SERVICE_HOST": "server"}.get(name, "run")
        if name == "PBS_JOBID":
            return re.sub(r"\..*", ".server", value, flags=re.DOTALL)
        if name == "LSB_MCPU_HOSTS":
            words = value.split()
            hosts = dict.fromkeys(words[::2])
            numbers = {host: f"host{number}" for number, host in enumerate(hosts, 1)}
            return " ".join(numbers[word] if place % 2 == 0 else word for place, word in enumerate(words))
        if name.endswith("_VISIBLE_DEVICES"):
            return self.ids.devices(value)
        return self.path(value)


def _is_common(name: str, vocabulary: frozenset[str]) -> bool:
    folded = name.casefold()
    is_word = folded in vocabulary or folded in COMMON_WORDS or _PROGRAM.search(folded) is not None
    return is_word or len(name) < 3 or name.isdecimal() or _DEVICE.fullmatch(folded) is not None


def _vocabulary(answers: Mapping[str, Any]) -> frozenset[str]:
    """
    Return the words of the kernel's paths that were asked for, of file systems, and of libraries' threads.
    """
    paths = [path for question in BY_PATH for path in answers.get(question) or ()]
    paths += [path for path in (answers.get("real_path") or {}).values() if path]
    own = [path for path in paths if is_kernels(path) and not path.startswith("/sys/fs/btrfs/")]
    own += [path.rpartition("/")[2] for path in answers.get("read_text") or () if path.startswith("/sys/fs/cgroup/")]
    own += HARMLESS_THREADS
    for line in ((answers.get("read_text") or {}).get("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        own += after.split(" ")[:1]
        if after.startswith("cgroup"):
            own += [*before.split(" ")[4:5], *after.split(" ")[2:3]]
    texts = [text.casefold() for text in own]
    whole = (part for text in texts for part in text.split("/"))
    return frozenset({*whole, *(token for text in texts for token in _TOKEN.findall(text))})


def _texts(value: Any) -> Iterator[str]:
    """
    Yield all texts of a document, keys before their values.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (str(key), *_texts(item))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _texts(item)
