"""
A child that asks py-cpuinfo, which sleeps for a second and starts processes, on some machines many. Its answer is kept.

Only :class:`~autoloader.probe.host_io.RealHost` asks here.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from ..store import Store
from .cpu_model import parse_details

PATIENCE_SECONDS = 20.0

_CODE = """
import os, signal, sys, threading

def end_with_parent(pipe):
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)

if len(sys.argv) > 1:
    threading.Thread(target=end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
sys.path[:] = [folder for folder in sys.path if folder]  # what lies in the working directory is not asked
import cpuinfo, json
print(json.dumps({"version": cpuinfo.CPUINFO_VERSION_STRING, **cpuinfo.get_cpu_info()}))
"""


def ask(interpreter: str, store: Store, key: Mapping[str, Any]) -> str | None:
    """
    Return what py-cpuinfo answers, or answered before; ``None`` where it is missing or broken, or takes too long.

    Args:
        interpreter: The Python that runs the child.
        store: Where the answer is kept.
        key: The processor, as :func:`identity` tells it, and the interpreter.
    """
    kept = store.read("cpuinfo", key)
    if isinstance(kept, str) and parse_details(kept).get("flags"):
        return kept
    answer = _run(interpreter)
    if answer is not None:
        store.write("cpuinfo", key, answer)
    return answer


def _run(interpreter: str) -> str | None:
    """
    Run py-cpuinfo in a child, which is ended together with all that it started when the time is over.

    Where the system has groups of processes, all of them also end with this process: a pipe tells the child.
    """
    import subprocess

    ours, childs = (None, None) if sys.platform == "win32" else os.pipe()[::-1]
    try:
        child = subprocess.Popen(
            [interpreter, "-W", "ignore", "-c", _CODE, *([] if childs is None else [str(childs)])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=() if childs is None else (childs,),
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        try:
            output, _ = child.communicate(timeout=PATIENCE_SECONDS)
        finally:
            _end(child)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    finally:
        for end in (ours, childs):
            if end is not None:
                os.close(end)
    text = output.decode("utf-8", "replace").strip()
    return text if child.returncode == 0 and parse_details(text) else None


def _end(child: Any) -> None:
    """
    End a child that still runs, and the processes of its session.
    """
    if child.poll() is None:
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                child.kill()
            else:
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
