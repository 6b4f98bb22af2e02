"""
What is known of what a loader's batches cost, from this run or an earlier one, and the plan that follows from it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..calibration import Calibration
from ..facts import HostFacts
from ..plan import Plan
from ..policy import Measured, Outlook, cpus_of_rank, fork_seconds, recommend
from ..profiling.inspect import length_of
from ..records import NO_LIMIT, seconds_text
from ..store import Store
from ..traits import Profile
from ..tuning.candidates import Situation, fewest_of, totals_of
from .confirming import is_like
from .remembering import Remembered, TrialStep, key_of, recall, remember
from .request import keeps_order, may_choose, request_of

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

SHARED_FRACTION = 8
"""
Of the free shared memory, no more than this part is used to see what sending a batch costs.
"""


def shared_bytes(facts: HostFacts) -> int:
    """
    Return how much shared memory may be used for a moment, to see what sending a batch costs.
    """
    free = facts.shared_memory.free_bytes
    return 0 if free is None or free == NO_LIMIT else int(free / SHARED_FRACTION)


def batches_of(loader: "AutoLoader[Any]") -> int | None:
    """
    Return how many batches an epoch has, or has had; ``None`` where that is not known.
    """
    batches = length_of(loader)
    return loader._course.recorder.most_batches if batches is None else batches


class Knowledge:
    """
    What the batches of one loader cost, as far as that is known.
    """

    def __init__(self) -> None:
        self.profile: Profile | None = None
        """What the plan is made by; ``None`` before anything is measured."""
        self.recalled: Remembered | None = None
        """What an earlier run has found, until batches say otherwise."""
        self._is_stored = True
        self._store = Store(None)
        self._key: dict[str, Any] = {}

    def recall(self, loader: "AutoLoader[Any]", store: Store) -> Remembered | None:
        """
        Return what an earlier run has found for *loader*; what this one finds is kept in *store*, too.
        """
        self._store = store
        if store.folder is None or not may_choose(loader):
            return None
        self.identify(loader)
        if keeps_order(loader):
            return None
        self.recalled = recall(store, self._key)
        return self.recalled

    def identify(self, loader: "AutoLoader[Any]") -> None:
        """
        Note what is about to be measured, unless that is known: the dataset as it was before anything became of it.
        """
        self._key = self._key or key_of(loader, request_of(loader))

    def keep(self, profile: Profile) -> None:
        """
        Keep what was measured for the next run.
        """
        fitting = self._fitting(profile) if self._is_stored else None
        kept = Remembered(profile) if fitting is None else fitting._replace(profile=profile)
        remember(self._store, self._key, kept)

    def keep_calibration(
        self, loader: "AutoLoader[Any]", found: Calibration, failed: Iterable[int], *, lasts: bool
    ) -> None:
        """
        Keep what a calibration has found, for this run and for the next one.

        Args:
            loader: The loader.
            found: What it has found.
            failed: Numbers of workers whose trial failed.
            lasts: Whether the next run shall find it, too, now or with what the batches show.
        """
        choice = found.plan.choices["num_workers"]
        best = choice.value if choice.rule == "num_workers.calibrated" else None
        self.identify(loader)
        steps = tuple(TrialStep(each.num_workers, each.step_seconds, each.first_batch_seconds) for each in found.trials)
        train = found.profile.step_seconds or 0.0
        self.recalled = Remembered(found.profile, best, choice.because, steps, tuple(failed), train)
        self._is_stored = lasts
        if lasts:
            remember(self._store, self._key, self.recalled)

    def forget(self) -> None:
        """
        Forget what does not hold any more.
        """
        self.profile = self.recalled = None

    def plan(
        self,
        loader: "AutoLoader[Any]",
        profile: Profile,
        batches_left: int | None,
        epochs_left: int,
        *,
        with_trials: bool = True,
    ) -> Plan:
        """
        Return the plan that follows from a profile, and from trials where they fit it.

        Args:
            loader: The loader.
            profile: What its batches cost.
            batches_left: Batches left of the epoch; ``None`` where that is not known.
            epochs_left: Epochs that are expected after it.
            with_trials: Whether trials decide, where there were some.
        """
        outlook = Outlook(batches_left, batches_of(loader), epochs_left)
        measured, found = Measured(profile, outlook), self._fitting(profile) if with_trials else None
        if found is not None:
            totals = self.totals(loader, profile, outlook) if found.best is not None else {}
            best = fewest_of(totals) if totals else found.best
            trials = found.trials if best == found.best else f"{found.trials}; {_best_now(best, profile)}"
            measured = measured._replace(best=best, trials=trials)
        return recommend(loader._facts, loader._traits, request_of(loader), measured)

    def totals(self, loader: "AutoLoader[Any]", profile: Profile, outlook: Outlook) -> dict[int, float]:
        """
        Return the seconds that all that is left takes by trials, by number of workers; empty where none fit.
        """
        found = self._fitting(profile)
        if found is None or not found.steps:
            return {}
        fork = fork_seconds(loader._facts, loader.plan.value("multiprocessing_context"))
        cpus, most = cpus_of_rank(loader._facts), max(step.num_workers for step in found.steps)
        steps = {step.num_workers: step.step_seconds for step in found.steps}
        if 0 in steps:  # with workers, loading and training go side by side
            steps[0] += max(0.0, (profile.step_seconds or 0.0) - found.train_seconds)
        starts = {step.num_workers: step.first_batch_seconds for step in found.steps}
        return totals_of(Situation(profile, cpus, most, outlook, fork), steps, starts)

    def is_beyond_trials(self, profile: Profile, workers: int) -> bool:
        """
        Return whether no trial ran, or failed, with more workers than so many.
        """
        found = self._fitting(profile)
        tried = () if found is None else (*(step.num_workers for step in found.steps), *found.failed)
        return all(each <= workers for each in tried)

    def _fitting(self, profile: Profile) -> Remembered | None:
        """
        Return what was found before by trials, where a sample still costs what it did then.
        """
        return self.recalled if self.recalled is not None and is_like(profile, self.recalled.profile) else None


def _best_now(workers: int | None, profile: Profile) -> str:
    """
    Return the clause that says why another number than the one that trials found best is the choice by now.
    """
    step = f" with steps of {seconds_text(profile.step_seconds)}" if profile.step_seconds else ""
    return f"for what is left to load{step}, {workers} is best by them"
