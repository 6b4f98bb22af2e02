"""
The event by which workers are told to end.
"""

from multiprocessing.synchronize import Event

LOCK_SECONDS = 1.0
"""
How long the event's lock may be held, which is held for an instant.
"""


class PatientEvent(Event):
    """
    An event whose lock may be held by a process that was killed while it looked: it does without the lock then.
    """

    _is_orphaned = False

    def set(self) -> None:
        """
        Set it.
        """
        if self._lock_is_free():
            super().set()
        else:
            self._flag.acquire(False)  # type: ignore[attr-defined]
            self._flag.release()  # type: ignore[attr-defined]

    def is_set(self) -> bool:
        """
        Return whether it is set.
        """
        if self._lock_is_free():
            return super().is_set()
        is_set: bool = self._flag.acquire(False)  # type: ignore[attr-defined]
        if is_set:
            self._flag.release()  # type: ignore[attr-defined]
        return is_set

    def _lock_is_free(self) -> bool:
        if not self._is_orphaned:
            self._is_orphaned = not self._cond.acquire(True, LOCK_SECONDS)  # type: ignore[attr-defined]
            if not self._is_orphaned:
                self._cond.release()  # type: ignore[attr-defined]
        return not self._is_orphaned
