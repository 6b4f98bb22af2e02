"""
Which names a recorded host should not tell.
"""

import os
import sys
from collections.abc import Callable

import pytest

from autoloader.probe.private_names import private_names

SetUp = Callable[..., dict[str, str]]


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> SetUp:
    """
    Return a function that gives the names in an environment without others.
    """

    def names(**environment: str) -> dict[str, str]:
        for variable in ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "HOSTNAME", "COMPUTERNAME"):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        return private_names()

    return names


def test_names_of_this_user_and_host_are_known(named: SetUp) -> None:
    """
    Login and home folder have a name each, a host a long and a short one; the longest is first.
    """
    names = named(USER="ana", HOME="/home/ana.b", USERPROFILE="/home/ana.b", HOSTNAME="box7.lab.example.org")
    assert names["ana"] == names["ana.b"] == "user"
    assert names["box7"] == names["box7.lab.example.org"] == "host"
    assert list(names) == sorted(names, key=len, reverse=True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows takes the home folder from other variables")
@pytest.mark.parametrize("home", ["/tmp", "/", "", "/root"])
def test_home_that_is_the_systems_has_no_name(home: str, named: SetUp) -> None:
    """
    A folder of the system is not somebody's.
    """
    assert not {"tmp", "root", ""} & set(named(USER="root", HOME=home))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows takes the home folder from other variables")
def test_home_with_the_users_name_is_known_with_its_path(named: SetUp) -> None:
    """
    A name that is a word elsewhere is still the user's there.
    """
    assert named(USER="dev", HOME="/data/people/dev")["/data/people/dev"] == "user"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such table")
def test_login_is_known_without_the_environment(named: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The system's table of accounts tells it, too; a container's user may not be in it.
    """
    import pwd

    entry = pwd.struct_passwd(("bea", "x", 1000, 1000, "", "/home/bea.c", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
    assert {"bea", "bea.c"} <= set(named(HOME="/"))

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert "bea" not in named(HOME="/")
    assert os.uname().nodename.lower() in {name.lower() for name in named(HOME="/")} | {"localhost"}
