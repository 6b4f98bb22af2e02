"""
What a loader's first batches tell, or what an earlier run knew of them, and the settings that follow from it.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.utils.data import Subset

from ..calibration import Calibration
from ..engine.delivery import Delivery
from ..engine.sending import try_to_send
from ..errors import CalibrationError
from ..facts import HostFacts
from ..findings import describe
from ..plan import Plan
from ..policy import MEASURED, Measured, Outlook, cpus_of_rank, expected_epochs_left, recommend
from ..policy.model import fewest_workers, is_at_one_thread, start_seconds, total_seconds
from ..policy.multiprocessing_context import method_name
from ..profiling import BatchClock, FetchTraces, Sent, WorkerTimes
from ..profiling.inspect import length_of
from ..profiling.timing import Moment
from ..records import NO_LIMIT
from ..store import Store
from ..traits import Profile
from .confirming import Confirmation, is_like
from .ranks import world_size
from .remembering import Remembered, key_of, recall, remember
from .request import keeps_order, may_choose, may_load_here, request_of
from .starting import STREAM_RESUMED, with_workers_of_stream
from .warn import warn_once

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

logger = logging.getLogger("autoloader")

SHARED_FRACTION = 8
"""
Of the free shared memory, no more than this part is used to see what sending a batch costs.
"""


LEFT_EPOCHS = 2
"""
After so many epochs in a row that were left early the next one is expected to be left, too.
"""


class FirstBatches:
    """
    What is known of one loader's first batches.
    """

    def __init__(self) -> None:
        self.profile: Profile | None = None
        self.traces: FetchTraces | None = None
        self.recalled: Remembered | None = None
        """What an earlier run has found, until batches say otherwise."""
        self._store = Store(None)
        self._clock: BatchClock | None = None
        self._epochs_begun = 0
        self._is_stale = self._is_confirmed = self._has_calibrated = False
        self._confirmation: Confirmation | None = None
        self._found: Profile | None = None
        self._worker_times: WorkerTimes | None = None
        self._sent: Sent | None = None
        self._key: dict[str, Any] = {}

    def recall(self, loader: "AutoLoader[Any]", store: Store) -> None:
        """
        Choose for *loader* by what an earlier run has found, if there is something.

        Workers start at once then, and their first batches confirm it; batches that load inline are timed anyway.
        """
        self._store = store
        if store.folder is None or not may_choose(loader) or keeps_order(loader):
            return
        self._key = key_of(loader, request_of(loader))
        self.recalled = found = recall(store, self._key)
        if found is None:
            return
        logger.info("store: settings by what an earlier run has measured")
        self._take(loader, found.profile, loader._traits.batches_per_epoch)
        if loader.plan.value("num_workers") or not may_load_here(loader):
            self.profile = found.profile  # else the first batches are timed anyway

    def keep(self, loader: "AutoLoader[Any]", found: Calibration) -> None:
        """
        Keep what a calibration has found for the next run.
        """
        choice = found.plan.choices["num_workers"]
        best = choice.value if choice.rule == "num_workers.calibrated" else None
        kept = Remembered(found.profile, best, choice.because)
        remember(self._store, key_of(loader, request_of(loader)), kept)

    def calibrate(self, loader: "AutoLoader[Any]") -> None:
        """
        Measure by real trials before the first epoch, unless an earlier run has; where that fails, say so and go on.

        Not in a process group: the other ranks would wait, and take the CPUs later that were free in the trials.
        """
        self._has_calibrated = True
        if not may_choose(loader) or (self.recalled is not None and self.recalled.trials):
            return
        rank = loader._facts.job.local_rank
        if world_size() > 1:
            warn_once("calibration.in-a-group", describe("calibration.in-a-group"), local_rank=rank, stacklevel=5)
            return
        from .calibrating import calibrate_loader  # which makes loaders itself

        try:
            found = calibrate_loader(loader)
        except CalibrationError as error:
            text = describe("calibration.went-on", error=error)
            warn_once("calibration.went-on", text, local_rank=rank, stacklevel=5)
            return
        logger.info("calibration: %s", found)
        self.profile = found.profile
        loader._take_plan(found.plan)

    @property
    def is_to_confirm(self) -> bool:
        """
        Return whether workers load by what an earlier run has found, and have not confirmed it yet.
        """
        is_recalled = self.recalled is not None and self.profile is self.recalled.profile
        return is_recalled and not self._is_confirmed and world_size() == 1

    def looks_at_workers(self, loader: "AutoLoader[Any]") -> bool:
        """
        Return whether workers are to say what a batch takes: it has to be confirmed, or is not known and not seen here.
        """
        if self.is_to_confirm:
            return True
        is_unknown = self.profile is None and self.recalled is None and world_size() == 1
        return is_unknown and not may_load_here(loader) and may_choose(loader) and not keeps_order(loader)

    def begin_with_workers(self, loader: "AutoLoader[Any]", workers: int, *, are_new: bool) -> None:
        """
        Get ready for what so many workers say that begin an epoch.
        """
        if self.is_to_confirm:
            return
        if self._worker_times is None:
            self._worker_times, self._key = WorkerTimes(), key_of(loader, request_of(loader))
        self._worker_times.begin(workers, are_new=are_new)

    def note_fetched(self, loader: "AutoLoader[Any]", delivery: Delivery, samples: int, step: Moment | None) -> bool:
        """
        Note what a batch of so many samples took in a worker, and return whether more is to be noted.

        Args:
            loader: The loader.
            delivery: The batch, and what it took.
            samples: The number of its samples.
            step: What the training did before it asked for this one; ``None`` before the first of an epoch.
        """
        fetched, times = delivery.fetched, self._worker_times
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
            self._note_found_in_workers(times)
        return self._worker_times is not None

    def _note_found_in_workers(self, times: WorkerTimes) -> None:
        self._worker_times = None
        self._note_found(times.profile(self._sent))

    def _note_found(self, profile: Profile) -> None:
        """
        Note a profile that the plan is not made by yet, and let the next run have it.
        """
        self._found = profile
        remember(self._store, self._key, Remembered(profile, *self._trials(profile)))

    def note_batch(self, loader: "AutoLoader[Any]") -> None:
        """
        Look at a batch that was timed, if it may be the last one, and let go of it.
        """
        clock = self._clock
        if clock is not None:
            if clock.has_enough_batches:
                self._sent = try_to_send(clock.last_batch, shared_bytes(loader._facts))
            clock.last_batch = None

    def loads_at_one_thread(self, plan: Plan) -> bool:
        """
        Return whether what loads inline is known to load no slower with torch at one thread.
        """
        if self.profile is not None:
            return is_at_one_thread(self.profile)
        return plan.choices["num_workers"].rule in MEASURED

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
        if self.recalled is None:
            return False
        if self._confirmation is None:
            self._confirmation = Confirmation(self.recalled.profile)
        workers = 1 if is_here else loader.plan.value("num_workers") or 1
        verdict = self._confirmation.note(load_seconds, step, workers, cpus_of_rank(loader._facts))
        if verdict is None:
            return True
        self._is_confirmed, self._is_stale = True, verdict.is_stale
        if verdict.other is not None:
            self._note_found(verdict.other)
        return False

    @property
    def has_found(self) -> bool:
        """
        Return whether something was found by which the plan is not made yet.

        Workers have said what batches take, or the training takes another time for one than it is remembered to.
        """
        return self._found is not None

    def choose_by_found(self, loader: "AutoLoader[Any]", batches_left: int | None = None) -> bool:
        """
        Choose anew for *loader* by what was found.

        Args:
            loader: The loader, of which an epoch begins or runs.
            batches_left: Batches left of an epoch that runs.

        Returns:
            Whether the rest of the epoch gains by other workers that start now.
        """
        profile, self._found = self._found, None
        if profile is None or not may_choose(loader):
            return False
        before, self.profile = loader.plan, profile
        plan = self._plan_by(loader, profile, loader._traits.batches_per_epoch)
        started = loader._settled(plan)
        if started.obstacle is not None:
            return False  # those that run go on
        loader._take_plan(plan)
        return self._gains(loader, before, started.plan, Outlook(batches_left, batches_left, 0))

    def _gains(
        self, loader: "AutoLoader[Any]", before: Plan, plan: Plan, outlook: Outlook, most_seconds: float = NO_LIMIT
    ) -> bool:
        """
        Return whether what is left is loaded sooner by another plan, whose workers have to start, than as before.

        Args:
            loader: The loader.
            before: What it loads by; its workers run.
            plan: The other plan.
            outlook: What is left.
            most_seconds: What that takes at most as before.
        """
        profile, cpus = self.profile, cpus_of_rank(loader._facts)
        is_forked = method_name(plan.value("multiprocessing_context")) == "fork"
        workers, now = before.value("num_workers"), plan.value("num_workers")
        if profile is None or workers == now:
            return False
        staying = total_seconds(profile, workers, cpus, outlook, is_forked=is_forked)
        staying -= start_seconds(profile, workers, cpus, is_forked=is_forked)
        return total_seconds(profile, now, cpus, outlook, is_forked=is_forked) < min(staying, most_seconds)

    def _choose_by_epochs(self, loader: "AutoLoader[Any]") -> None:
        """
        Choose anew for *loader* after 2, 4, 8, ... epochs, as it is expected to last as long again.

        What the last epoch took stands against what the model says: workers may have become faster since, by a cache.
        """
        begun, took = self._epochs_begun - 1, loader._course.recorder.last_seconds
        profile, plan = self.profile, loader.plan
        if begun < 2 or begun & (begun - 1) or took is None or profile is None or self.is_to_confirm:
            return
        if world_size() > 1 or not plan.value("num_workers") or plan.value("backend") != "process":
            return
        if not may_choose(loader) or keeps_order(loader):
            return
        batches, left = loader._traits.batches_per_epoch, expected_epochs_left(loader.epochs, begun)
        other = self._plan_by(loader, profile, batches)
        if other.value("num_workers") == plan.value("num_workers"):
            return
        started, outlook = loader._settled(other), Outlook(batches, batches, left)
        if started.obstacle is None and self._gains(loader, plan, started.plan, outlook, took * (1 + left)):
            logger.info("after %d epochs as many are expected again", begun)
            loader._take_plan(other)

    def get_ready(self, loader: "AutoLoader[Any]") -> None:
        """
        Before an epoch: choose by what the last one has shown, or measure anew where what was remembered did not fit.
        """
        self._epochs_begun += 1
        if self._worker_times is not None and self._worker_times.has_some:
            self._note_found_in_workers(self._worker_times)
        if self.has_found:
            self.choose_by_found(loader)
        if self._is_stale:
            self._is_stale, self.recalled, self.profile, self._confirmation = False, None, None, None
            loader._inners.drop_kept()
            self._choose_again(loader)
        self._choose_by_epochs(loader)
        self._follow_resumed(loader)

    def _choose_again(self, loader: "AutoLoader[Any]") -> None:
        """
        Choose for *loader* by what is known now, before an epoch.
        """
        if not may_choose(loader):
            return
        loader._look_again()
        if self.profile is not None:
            self._take(loader, self.profile, loader._traits.batches_per_epoch)
        else:
            loader._take_plan(recommend(loader._facts, loader._traits, request_of(loader)))

    def _follow_resumed(self, loader: "AutoLoader[Any]") -> None:
        """
        Take as many workers as had read the stream that the next epoch goes on with, and no longer than for that one.
        """
        workers, plan = loader._course.workers_of_resumed, loader.plan
        if workers is None and plan.choices["num_workers"].rule == STREAM_RESUMED:
            self._choose_again(loader)
        if not workers or workers == plan.value("num_workers") or not may_choose(loader):
            return
        if plan.value("num_workers") and plan.value("backend") == "process":
            loader._take_plan(with_workers_of_stream(plan, workers))

    def _take(self, loader: "AutoLoader[Any]", profile: Profile, batches_left: int | None) -> None:
        """
        Let *loader* go on with the plan that follows from a profile, and from trials where they fit it.
        """
        loader._take_plan(self._plan_by(loader, profile, batches_left))

    def _plan_by(self, loader: "AutoLoader[Any]", profile: Profile, batches_left: int | None) -> Plan:
        """
        Return the plan that follows from a profile, and from trials where they fit it.
        """
        left = expected_epochs_left(loader.epochs, max(0, self._epochs_begun - 1))
        batches = length_of(loader)
        if batches is None:
            batches = loader._course.recorder.most_batches
        outlook = Outlook(batches_left, batches, left)
        measured = Measured(profile, outlook, *self._trials(profile))
        return recommend(loader._facts, loader._traits, request_of(loader), measured)

    def _trials(self, profile: Profile) -> tuple[int | None, str]:
        """
        Return what trials of an earlier run found best and what they saw, where a sample still costs what it did then.
        """
        if self.recalled is None or not is_like(profile, self.recalled.profile):
            return None, ""
        return self.recalled.best, self.recalled.trials

    def clock_for_epoch(self, loader: "AutoLoader[Any]") -> BatchClock | None:
        """
        Return what is to time the next batches; ``None`` where nothing is to be measured, or all has been.

        If enough was seen in earlier epochs, *loader* has another plan afterwards.

        Not with ``worker_init_fn``, without which samples may not be what the user wants, nor for iterable-style data,
        which cannot change horses in mid-stream: workers time their batches there. Nor in a process group, whose ranks
        had better load alike.
        """
        if loader.calibrate and not self._has_calibrated:
            self.calibrate(loader)
        if world_size() > 1:
            return None
        if self._is_choice_due(loader.plan):
            self.choose(loader, length_of(loader))
        if self.profile is not None or not may_load_here(loader):
            return None
        if self._clock is None:
            self._clock = BatchClock(goes_one_by_one=_goes_one_by_one(loader))
            self.traces, self._key = FetchTraces(loader.dataset), key_of(loader, request_of(loader))
        self._clock.begin_epoch()
        return self._clock

    def batches_at_a_glance(self, loader: "AutoLoader[Any]") -> int | None:
        """
        Return how many batches the next epoch begins with inline, as the last ones were left after no more than these.

        ``None`` where they were not, where workers pay even so, and where fetching samples leaves something behind that
        workers would inherit.
        """
        most = loader._course.recorder.most_before_leaving(LEFT_EPOCHS)
        plan, profile = loader.plan, self.profile
        if not most or profile is None or plan.value("backend") != "process" or world_size() > 1:
            return None
        if not may_load_here(loader) or (self.traces is not None and self.traces.has_left_something):
            return None
        workers, is_forked = plan.value("num_workers"), method_name(plan.value("multiprocessing_context")) == "fork"
        cpus, outlook = cpus_of_rank(loader._facts), Outlook(most, most, 0)
        if fewest_workers(profile, (0, workers), cpus, outlook, is_forked=is_forked):
            return None
        logger.info("the last epochs were left after %d batches at most: so many load inline", most)
        return most

    @contextlib.contextmanager
    def noting_traces(self, loader: "AutoLoader[Any]", *, looks_at_positions: bool) -> Iterator[None]:
        """
        Note what is opened within the block, where the dataset is fetched from in this process.
        """
        if self.traces is None:
            self.traces, looks_at_positions = FetchTraces(loader.dataset), True
        self.traces.begin(looks_at_positions=looks_at_positions)
        try:
            yield
        finally:
            self.traces.end()

    def choose(self, loader: "AutoLoader[Any]", batches_left: int | None) -> None:
        """
        Choose anew for *loader*, by what was measured, where batches load inline and as far as the user has not chosen.

        Args:
            loader: The loader.
            batches_left: Batches left of the epoch; ``None`` where that is not known.
        """
        clock, self._clock = self._clock, None
        loader._look_again()
        if clock is not None and clock.has_seen_enough:
            self.profile = clock.profile(self._sent)
            if self.traces is not None and self.traces.has_read_older_file:
                loader._traits = replace(loader._traits, reads_open_file=True)
        elif self.profile is None:
            self._clock = clock
            return
        if not self._may_choose_by(loader):
            return
        self._take(loader, self.profile, batches_left)
        if clock is None and self.traces is not None:
            self.traces.suspect_new_files()
        if clock is not None and not loader._traits.reads_open_file:
            found = Remembered(self.profile, *self._trials(self.profile))
            remember(self._store, self._key, found)  # of the dataset as it was before anything was fetched

    @staticmethod
    def _may_choose_by(loader: "AutoLoader[Any]") -> bool:
        """
        Return whether what was measured may change the plan: it does, too, where it has shown that no worker may load.
        """
        return loader._traits.reads_open_file or may_choose(loader)

    def undo_traces(self, plan: Plan) -> bool:
        """
        Let workers find the dataset as if nothing had been fetched in this process, where that matters to them.

        A forked worker may well find what was loaded already, but not what is open; another one gets it pickled.

        Returns:
            Whether files are open all the same.
        """
        if self.traces is None:
            return False
        if self.traces.has_open_files or method_name(plan.value("multiprocessing_context")) != "fork":
            self.traces.undo()
        return self.traces.has_open_files

    def _is_choice_due(self, plan: Plan) -> bool:
        """
        Return whether to choose before an epoch: after a measurement, and again as long as workers did not pay yet.
        """
        if self.profile is not None:
            return not plan.value("num_workers")
        return self._clock is not None and self._clock.has_seen_enough


def _goes_one_by_one(loader: "AutoLoader[Any]") -> bool:
    """
    Return whether torch fetches a sample for each index of a list, so that no code of the user's gets the list itself.
    """
    fetches = getattr(type(loader.dataset), "__getitems__", None)
    return loader.batch_sampler is not None and (fetches is None or fetches is Subset.__getitems__)


def shared_bytes(facts: HostFacts) -> int:
    """
    Return how much shared memory may be used for a moment, to see what sending a batch costs.
    """
    free = facts.shared_memory.free_bytes
    return 0 if free is None or free == NO_LIMIT else int(free / SHARED_FRACTION)
