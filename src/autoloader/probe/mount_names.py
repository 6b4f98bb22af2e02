"""
The mount table without the names of servers and users.
"""

import re
from collections.abc import Callable

from .mounts import crosses_network, unescape

_CONTROL_GROUPS = frozenset({"cgroup", "cgroup2"})
_FOLDERS = frozenset({"lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir"})
_PRIVATE_OPTION = re.compile(
    r"(?:client|mount|src|local|source)?addr|(?:mon_|ip_?)addr|user|username|uname|domain|unc|ip|server|host(?:name)?"
    r"|cred(?:ential)?s?|pass(?:word)?|secret|source|nbname|workgroup"
)
_DRIVE = re.compile(r"[A-Za-z]:(?:[/\\].*)?|\.host:.*")
_SERVERS = (
    (re.compile(r"([A-Za-z][\w+.-]*://)[^/]*"), r"\1server"),
    (re.compile(r"//[^/]+"), "//server"),
    (re.compile(r"\\\\[^\\/]+"), r"\\\\server"),
    (re.compile(r"[^/@]+@([0-9A-Fa-f-]{36})?\.(?=[^/=]+=)"), r"user@\1."),
    (re.compile(r"[^/@:]+@[^/@:,]+:(?!.*:/)"), "user@server:"),
    (re.compile(r"[^/]+:(?=/)|[^/:]+:"), "server:"),
    (re.compile(r"[^/]+(?=/)"), "server"),
)
"""
How network file systems write where their data is, and the same without server and user: an address; Windows' shares;
Ceph, ``user@fsid.name=/``; SSH, ``user@server:path``; all others, ``server:path``, with several servers or ports; Weka,
``server/name``.
"""


class MountNames:
    """
    Replaces names in the text of /proc/self/mountinfo, line by line. Source: proc_pid_mountinfo(5).

    Args:
        path: Replaces names in a path.
        words: Replaces names in any other text.
    """

    def __init__(self, path: Callable[[str], str], words: Callable[[str], str]) -> None:
        self._path, self._words = path, words

    def __call__(self, text: str) -> str:
        """
        Return the table with stand-ins; the kernel's own words in it stay.
        """
        return "".join(self._line(line) for line in text.splitlines(keepends=True))

    def _line(self, line: str) -> str:
        end = line[len(line.rstrip("\n")) :]
        before, separator, after = line.rstrip("\n").partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not separator or len(left) < 5 or len(right) < 2:
            return self._words(line)
        filesystem = right[0]
        of_root = self._words if filesystem in _CONTROL_GROUPS else self._path
        left[3], left[4] = _escape(of_root(unescape(left[3]))), _escape(self._path(unescape(left[4])))
        if filesystem not in _CONTROL_GROUPS:
            right[1] = _escape(self.source(unescape(right[1]), crosses_network=crosses_network(filesystem)))
            right[2:] = [",".join(self._option(option) for option in text.split(",")) for text in right[2:]]
        return f"{' '.join(left)} - {' '.join(right)}{end}"

    def source(self, source: str, *, crosses_network: bool) -> str:
        """
        Return what is mounted: a device or a folder with stand-ins, what crosses a network without its server.
        """
        if not crosses_network or source.startswith("/dev/"):
            return ":".join(self._path(part) for part in source.split(":"))
        if _DRIVE.fullmatch(source):
            return self._path(source)
        for form, instead in _SERVERS:
            found = form.match(source)
            if found is not None:
                return self._words(found.expand(instead)) + self._path(source[found.end() :])
        return self._path(source)

    def _option(self, option: str) -> str:
        name, sign, value = option.partition("=")
        if not sign:
            return option
        if _PRIVATE_OPTION.fullmatch(name):
            return f"{name}=private"
        folders = re.split(r"(?<!\\):", unescape(value)) if name in _FOLDERS else [unescape(value)]
        replaced = _escape(":".join(self._path(folder) for folder in folders))
        return f"{name}=" + replaced.replace(",", "\\054")


def _escape(text: str) -> str:
    """
    Write space, tab, newline and backslash in octal, as the kernel does.
    """
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", text)
