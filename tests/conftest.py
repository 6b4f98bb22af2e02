"""
Keeps unit tests off the real machine: only tests marked ``real_host`` may ask it.
"""

import importlib.util
import os
import signal

import pytest

from autoloader.probe.host_io import RealHost

os.environ.setdefault("AUTOLOADER_NO_CACHE", "1")  # no test finds what another one has measured, nor a user's training

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a shell's background jobs have it; tests send Ctrl-C


@pytest.fixture(autouse=True)
def _no_real_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Make every question to the real host an error, unless the test says that it wants it.
    """
    if request.node.get_closest_marker("real_host"):
        return
    for name in [name for name in vars(RealHost) if not name.startswith("_")]:

        def refuse(*arguments: object, name: str = name) -> None:
            raise AssertionError(f"this test asked the real host for {name}; use FakeHost, or mark it real_host")

        monkeypatch.setattr(RealHost, name, property(refuse) if isinstance(vars(RealHost)[name], property) else refuse)


HAS_TORCH = importlib.util.find_spec("torch") is not None

NEED_TORCH = ["loader", "engine", "tuning", "test_documents.py", "test_example.py"]

collect_ignore = ["start/scripts"] if HAS_TORCH else ["start/scripts", *NEED_TORCH]
"""
The scripts are read by tests: some of them look like tests to pytest.
"""


def pytest_report_header() -> str:
    """
    Say what is left out where torch is not installed.
    """
    return "torch: installed" if HAS_TORCH else f"torch: not installed, left out: {', '.join(NEED_TORCH)}"
