"""
The names of this user and of this host, which a document to pass on should not tell.

Only here are they asked for: a probe has no use for them.
"""

import os
import re
import sys

_NAMES_OF_NOBODY = frozenset({"host", "linux", "localhost", "none", "root", "server", "user"})


def private_names() -> dict[str, str]:
    """
    Return the names of this user and of this host, and what stands in their place in a document to pass on.

    A key with a slash is the path of a home folder that has the user's name.
    """
    logins, homes = _of_account()
    logins |= {os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    homes |= {os.path.expanduser("~")}
    private: dict[str, str] = dict.fromkeys(logins, "user")
    for home in homes:
        parts = [part for part in re.split(r"[/\\]", home) if part]
        if len(parts) > 1:
            private.setdefault(parts[-1], "user")
        if len(parts) > 1 and parts[-1] in logins:
            private[home.rstrip("/\\")] = "user"
    node = os.uname().nodename if hasattr(os, "uname") else ""
    for host in (node, os.environ.get("HOSTNAME", ""), os.environ.get("COMPUTERNAME", "")):
        private.setdefault(host, "host")
        private.setdefault(host.partition(".")[0], "host")
    kept = (name for name in private if name and name.lower() not in _NAMES_OF_NOBODY)
    return {name: private[name] for name in sorted(kept, key=len, reverse=True)}


def _of_account() -> tuple[set[str], set[str]]:
    """
    Return login and home folder by the system's table of accounts, whatever the environment says.
    """
    if sys.platform == "win32":
        return set(), set()
    import pwd

    try:
        account = pwd.getpwuid(os.getuid())
    except KeyError:
        return set(), set()
    return {account.pw_name}, {account.pw_dir}
