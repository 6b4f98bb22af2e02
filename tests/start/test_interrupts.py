"""
Ctrl-C is kept away from a child while it starts, and comes to this process afterwards.
"""

import signal
import sys
import threading
from collections.abc import Iterable

import pytest

from autoloader.start.interrupts import held, let_through

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal masks")


def blocked() -> set[int]:
    """
    Return the signals that this thread holds back.
    """
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, set()))


def test_mask_is_as_before_whatever_happens() -> None:
    """
    Also after an error, and with signals that the user holds back.
    """
    before = blocked()
    with held("spawn"):
        assert blocked() == before | {signal.SIGINT}
    assert blocked() == before
    with pytest.raises(OSError, match="no more processes"), held("fork"):
        raise OSError("no more processes")
    assert blocked() == before
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR1})
    try:
        with held("spawn"):
            pass
        assert blocked() == before | {signal.SIGINT, signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_mask_is_as_before_where_an_interrupt_comes_while_signals_are_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Python raises it once they are, out of the very call that blocks them.
    """
    before, block = blocked(), signal.pthread_sigmask

    def interrupted(how: int, signals: Iterable[int]) -> set[signal.Signals]:
        old = block(how, signals)
        if how == signal.SIG_BLOCK and signals:
            raise KeyboardInterrupt
        return old

    with monkeypatch.context() as patch:
        patch.setattr(signal, "pthread_sigmask", interrupted)
        with pytest.raises(KeyboardInterrupt), held("fork"):
            pytest.fail("the block was entered")
    assert blocked() == before


def test_signal_that_the_user_holds_back_stays_held_back_in_a_forked_child() -> None:
    """
    A thread of the training process may wait for SIGTERM, to write a checkpoint: the workers are to live as long.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with held("fork"):
            let_through()
            assert blocked() == before | {signal.SIGTERM}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_children_of_the_fork_server_leave_this_process_open_to_it() -> None:
    """
    They inherit nothing from here.
    """
    before = blocked()
    with held("forkserver"):
        assert blocked() == before


def test_interrupt_that_comes_meanwhile_comes_afterwards() -> None:
    """
    It is not lost: the user's KeyboardInterrupt is raised when the child has started.

    It is sent to this thread: another one, of numpy's for instance, would take what is sent to the process.
    """
    reached: list[int] = []
    me = threading.get_ident()
    with pytest.raises(KeyboardInterrupt), held("spawn"):
        reached.extend(signal.pthread_kill(me, number) or number for number in (signal.SIGINT,))
    assert reached == [signal.SIGINT]


def test_child_that_was_started_meanwhile_lets_it_through_itself() -> None:
    """
    Its mask is inherited, and opened by the worker when it is ready.
    """
    before = blocked()
    with held("fork"):
        let_through()
        assert blocked() == before - {signal.SIGINT, signal.SIGTERM}
    assert blocked() == before


def test_forked_child_does_not_run_its_parents_handler_for_sigterm() -> None:
    """
    It may write a checkpoint: where this process ends the child at once, that comes before the child has its own.
    """
    before = blocked()
    with held("fork"):
        assert blocked() == before | {signal.SIGINT, signal.SIGTERM}
    assert blocked() == before
