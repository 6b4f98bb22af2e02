"""
What batches tell as they come, from workers above all: whether what is remembered holds, or what was never measured.
"""

from typing import TYPE_CHECKING, Any

from ..engine.delivery import Delivery
from ..engine.sending import try_to_send
from ..policy import cpus_of_rank
from ..profiling import Sent, WorkerTimes
from ..profiling.timing import Moment
from ..traits import Profile
from .confirming import Confirmation
from .knowledge import Knowledge, shared_bytes
from .ranks import world_size
from .request import keeps_order, may_choose, may_load_here

if TYPE_CHECKING:
    from .auto_loader import AutoLoader


class WorkerBatches:
    """
    What the batches of one loader tell as workers deliver them, or as a few load in this process by the same plan.

    Args:
        known: What is known of the loader's batches; what workers find is kept for the next run.
    """

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._confirmation: Confirmation | None = None
        self.is_confirmed = self._is_stale = False
        self._times: WorkerTimes | None = None
        self._sent: Sent | None = None
        self._found: Profile | None = None

    @property
    def is_to_confirm(self) -> bool:
        """
        Return whether workers load by what an earlier run has found, and have not confirmed it yet.
        """
        recalled = self._known.recalled
        is_recalled = recalled is not None and self._known.profile is recalled.profile
        return is_recalled and not self.is_confirmed and world_size() == 1

    def are_timed(self, loader: "AutoLoader[Any]") -> bool:
        """
        Return whether workers are to say what a batch takes: it has to be confirmed, or is not known and not seen here.
        """
        if self.is_to_confirm:
            return True
        is_unknown = self._known.profile is None and self._known.recalled is None and world_size() == 1
        return is_unknown and not may_load_here(loader) and may_choose(loader) and not keeps_order(loader)

    def begin_epoch(self, loader: "AutoLoader[Any]", workers: int, *, are_new: bool) -> None:
        """
        Get ready for what so many workers say that begin an epoch.
        """
        if self.is_to_confirm:
            return
        if self._times is None:
            self._times = WorkerTimes()
            self._known.identify(loader)
        self._times.begin(workers, are_new=are_new)

    def find_by_what_was_seen(self) -> None:
        """
        Take what was seen up to now for enough, if there is some.
        """
        if self._times is not None and self._times.has_some:
            self._find_by(self._times)

    def note_fetched(self, loader: "AutoLoader[Any]", delivery: Delivery, samples: int, step: Moment | None) -> bool:
        """
        Note what a batch of so many samples took in a worker, and return whether more is to be noted.

        Args:
            loader: The loader.
            delivery: The batch, and what it took.
            samples: The number of its samples.
            step: What the training did before it asked for this one; ``None`` before the first of an epoch.
        """
        fetched, times = delivery.fetched, self._times
        if fetched is None:
            return False
        if self.is_to_confirm:
            return self.note_seen(loader, fetched.seconds, None if step is None else step.wall)
        if times is None:
            return False
        times.note(fetched, samples, step)
        if times.has_some and self._sent is None:
            self._sent = try_to_send(delivery.batch, shared_bytes(loader._facts))
        if times.has_seen_enough:
            self._find_by(times)
        return self._times is not None

    def note_seen(
        self, loader: "AutoLoader[Any]", load_seconds: float, step: float | None, *, is_here: bool = False
    ) -> bool:
        """
        Note what fetching a batch took where it has to be confirmed, and return whether more is to be noted.

        Args:
            loader: The loader.
            load_seconds: What fetching it took.
            step: Seconds of the training before it asked for this one; ``None`` before the first of an epoch.
            is_here: Whether it was fetched in this process.
        """
        recalled = self._known.recalled
        if recalled is None:
            return False
        if self._confirmation is None:
            self._confirmation = Confirmation(recalled.profile)
        workers = 1 if is_here else loader.plan.value("num_workers") or 1
        verdict = self._confirmation.note(load_seconds, step, workers, cpus_of_rank(loader._facts))
        if verdict is None:
            return True
        self.is_confirmed, self._is_stale = True, verdict.is_stale
        if verdict.other is not None:
            self._find(verdict.other)
        return False

    def _find_by(self, times: WorkerTimes) -> None:
        self._times = None
        self._find(times.profile(self._sent))

    def _find(self, profile: Profile) -> None:
        self._found = profile
        self._known.keep(profile)

    @property
    def has_found(self) -> bool:
        """
        Return whether something was found by which the plan is not made yet.

        Workers have said what batches take, or the training takes another time for one than it is remembered to.
        """
        return self._found is not None

    def take_found(self) -> Profile | None:
        """
        Return what was found, to make a plan by it.
        """
        found, self._found = self._found, None
        return found

    def forget_if_stale(self) -> bool:
        """
        Return whether what an earlier run has found did not hold; it is forgotten then.
        """
        if not self._is_stale:
            return False
        self._is_stale, self._confirmation = False, None
        self._known.forget()
        return True
