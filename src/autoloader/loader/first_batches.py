"""
What a loader's first batches tell, or what an earlier run knew of them, and the settings that follow from it.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch.utils.data import Subset

from ..calibration import INTERRUPT
from ..engine.sending import try_to_send
from ..errors import CalibrationError, MissingMainGuardError
from ..findings import describe
from ..plan import Plan
from ..policy import MEASURED, Outlook, cpus_of_rank, expected_epochs_left, fork_seconds, recommend
from ..policy.model import fewest_workers, is_at_one_thread, start_seconds, total_seconds
from ..policy.multiprocessing_context import method_name
from ..profiling import BatchClock, FetchTraces, Sent
from ..profiling.inspect import length_of
from ..store import Store
from ..traits import Profile
from .knowledge import Knowledge, batches_of, shared_bytes
from .ranks import world_size
from .remembering import Remembered
from .request import keeps_order, may_choose, may_load_here, request_of
from .settling import look_again, settled_plan
from .starting import STREAM_RESUMED, with_workers_of_stream
from .warn import warn_once
from .worker_batches import WorkerBatches

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

logger = logging.getLogger("autoloader")

LEFT_EPOCHS = 2
"""
After so many epochs in a row that were left early the next one is expected to be left, too.
"""


class FirstBatches:
    """
    What is known of one loader's first batches.
    """

    def __init__(self) -> None:
        self.known = Knowledge()
        self.workers = WorkerBatches(self.known)
        self.traces: FetchTraces | None = None
        self._clock: BatchClock | None = None
        self._epochs_begun = 0
        self._has_calibrated = self._has_unseen = False
        self._sent: Sent | None = None

    def recall(self, loader: "AutoLoader[Any]", store: Store) -> None:
        """
        Choose for *loader* by what an earlier run has found, if there is something.

        Workers start at once then, and their first batches confirm it; batches that load inline are timed anyway.
        """
        found = self.known.recall(loader, store)
        if found is None:
            return
        logger.info("store: settings by what an earlier run has measured")
        self._take(loader, found.profile, loader._traits.batches_per_epoch)
        self._rely_on(found, loader)

    def _rely_on(self, found: Remembered, loader: "AutoLoader[Any]") -> None:
        """
        Take for known what was not measured by this loader, unless its first batches load inline and are timed anyway.
        """
        is_relied_on = loader.plan.value("num_workers") or not may_load_here(loader)
        self.known.profile = found.profile if is_relied_on else None

    def calibrate(self, loader: "AutoLoader[Any]") -> None:
        """
        Measure by real trials before the first epoch, unless an earlier run has; where that fails, say so and go on.

        Not in a process group: the other ranks would wait, and take the CPUs later that were free in the trials.
        """
        if not may_choose(loader) or (self.known.recalled is not None and self.known.recalled.trials):
            return
        rank = loader._facts.job.local_rank
        if world_size() > 1:
            warn_once("calibration.in-a-group", describe("calibration.in-a-group"), local_rank=rank, stacklevel=5)
            return
        from .calibrating import calibrate_loader  # which makes loaders itself

        try:
            found = calibrate_loader(loader, while_waiting=loader._inners.refuse_if_closing)
        except (CalibrationError, MissingMainGuardError) as error:
            if loader.on_unsafe == "raise" and isinstance(error, MissingMainGuardError):
                raise
            logger.info("calibration: %s", error)
            text = describe("calibration.went-on", error=str(error).partition("\n")[0].rstrip("."))
            warn_once("calibration.went-on", text, local_rank=rank, stacklevel=5)
            return
        logger.info("calibration: %s", found)
        if found.stopped_by == INTERRUPT:
            raise KeyboardInterrupt
        self.workers.is_confirmed = True
        loader._take_plan(found.plan)
        assert self.known.recalled is not None  # it was kept
        self._rely_on(self.known.recalled, loader)

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
        if self.known.profile is not None:
            return is_at_one_thread(self.known.profile)
        return plan.choices["num_workers"].rule in MEASURED

    def choose_by_found(self, loader: "AutoLoader[Any]", batches_left: int | None = None) -> bool:
        """
        Choose anew for *loader* by what was found.

        Args:
            loader: The loader, of which an epoch begins or runs.
            batches_left: Batches left of an epoch that runs.

        Returns:
            Whether the rest of the epoch gains by other workers that start now.
        """
        profile = self.workers.take_found()
        if profile is None or not may_choose(loader):
            return False
        before, self.known.profile = loader.plan, profile
        plan = self._plan_by(loader, profile, loader._traits.batches_per_epoch)
        started = settled_plan(loader, plan)
        if started.obstacle is not None:
            return False  # those that run go on
        loader._take_plan(plan)
        return _gains(loader, profile, before, started.plan, Outlook(batches_left, batches_left, 0))

    def _choose_by_epochs(self, loader: "AutoLoader[Any]") -> None:
        """
        Choose anew for *loader* after 2, 4, 8, ... epochs, as it is expected to last as long again.

        What the last epoch took stands against what the model says: workers may have become faster since, by a cache.
        """
        begun, last = self._epochs_begun - 1, loader._course.recorder.last_times
        profile, plan = self.known.profile, loader.plan
        if begun < 2 or begun & (begun - 1) or last is None or profile is None or self.workers.is_to_confirm:
            return
        if world_size() > 1 or not plan.value("num_workers") or plan.value("backend") != "process":
            return
        if not may_choose(loader) or keeps_order(loader):
            return
        batches, workers = batches_of(loader), plan.value("num_workers")
        outlook = Outlook(batches, batches, expected_epochs_left(loader.epochs, begun))
        tried, other = self.known.totals(loader, profile, outlook), self._plan_by(loader, profile, batches)
        if other.value("num_workers") <= workers and self.known.is_beyond_trials(profile, workers):
            tried, other = {}, self._plan_by(loader, profile, batches, with_trials=False)
        if not _gains(loader, profile, plan, other, outlook, tried=tried, last=last):
            return
        started = settled_plan(loader, other)
        if started.obstacle is None and _gains(loader, profile, plan, started.plan, outlook, tried=tried, last=last):
            logger.info("after %d epochs as many are expected again", begun)
            loader._take_plan(other)

    def get_ready(self, loader: "AutoLoader[Any]") -> None:
        """
        Before an epoch: choose by what the last one has shown, or measure anew where what was remembered did not fit.
        """
        self._epochs_begun += 1
        self.workers.find_by_what_was_seen()
        if self.workers.has_found:
            self.choose_by_found(loader)
        if self.workers.forget_if_stale():
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
        look_again(loader)
        if self.known.profile is not None:
            self._take(loader, self.known.profile, loader._traits.batches_per_epoch)
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

    def _plan_by(
        self, loader: "AutoLoader[Any]", profile: Profile, batches_left: int | None, *, with_trials: bool = True
    ) -> Plan:
        """
        Return the plan that follows from a profile, and from trials where they fit it.
        """
        left = expected_epochs_left(loader.epochs, max(0, self._epochs_begun - 1))
        return self.known.plan(loader, profile, batches_left, left, with_trials=with_trials)

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
            self._has_calibrated = True
        if world_size() > 1:
            return None
        if self._is_choice_due(loader.plan):
            self.choose(loader, length_of(loader))
        if self.known.profile is not None or not may_load_here(loader):
            return None
        if self._clock is None:
            self._clock = BatchClock(goes_one_by_one=_goes_one_by_one(loader))
            self.traces = FetchTraces(loader.dataset)
            self.known.identify(loader)
        self._clock.begin_epoch()
        return self._clock

    def batches_at_a_glance(self, loader: "AutoLoader[Any]") -> int | None:
        """
        Return how many batches the next epoch begins with inline, as the last ones were left after no more than these.

        ``None`` where they were not, where workers pay even so, and where fetching samples leaves something behind that
        workers would inherit.
        """
        most = loader._course.recorder.most_before_leaving(LEFT_EPOCHS)
        plan, profile = loader.plan, self.known.profile
        if not most or profile is None or plan.value("backend") != "process" or world_size() > 1:
            return None
        if not may_load_here(loader) or (self.traces is not None and self.traces.has_left_something):
            return None
        workers, fork = plan.value("num_workers"), fork_seconds(loader._facts, plan.value("multiprocessing_context"))
        cpus, outlook = cpus_of_rank(loader._facts), Outlook(most, most, 0)
        if fewest_workers(profile, (0, workers), cpus, outlook, fork_seconds=fork):
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

    def note_unseen(self, loader: "AutoLoader[Any]") -> None:
        """
        Note that batches load in this process unseen, and that workers may start later.
        """
        if not loader.plan.value("num_workers") and not may_choose(loader):
            return
        if self.traces is None:
            self.traces = FetchTraces(loader.dataset)
            self.traces.begin(looks_at_positions=False)
        self._has_unseen = True

    def choose(self, loader: "AutoLoader[Any]", batches_left: int | None) -> None:
        """
        Choose anew for *loader*, by what was measured, where batches load inline and as far as the user has not chosen.

        Args:
            loader: The loader.
            batches_left: Batches left of the epoch; ``None`` where that is not known.
        """
        clock, self._clock = self._clock, None
        look_again(loader)
        if clock is not None and clock.has_seen_enough:
            self.known.profile = clock.profile(self._sent)
            if self.traces is not None and self.traces.has_read_older_file:
                loader._traits = replace(loader._traits, reads_open_file=True)
        profile = self.known.profile
        if profile is None:
            self._clock = clock
            return
        if not self._may_choose_by(loader):
            return
        self._take(loader, profile, batches_left)
        if clock is None and self.traces is not None:
            self.traces.suspect_new_files()
        if clock is not None and not loader._traits.reads_open_file:
            self.known.keep(profile)

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
        if self._has_unseen:
            self._has_unseen = False
            self.traces.suspect_new_files()
        if self.traces.has_open_files or method_name(plan.value("multiprocessing_context")) != "fork":
            self.traces.undo()
        return self.traces.has_open_files

    def _is_choice_due(self, plan: Plan) -> bool:
        """
        Return whether to choose before an epoch: after a measurement, and again as long as workers did not pay yet.
        """
        if self.known.profile is not None:
            return not plan.value("num_workers")
        return self._clock is not None and self._clock.has_seen_enough


def _gains(
    loader: "AutoLoader[Any]",
    profile: Profile,
    before: Plan,
    plan: Plan,
    outlook: Outlook,
    *,
    tried: Mapping[int, float] = MappingProxyType({}),
    last: tuple[float, float] | None = None,
) -> bool:
    """
    Return whether what is left is loaded sooner by another plan, whose workers have to start, than as before.

    Args:
        loader: The loader.
        profile: What its batches cost.
        before: What it loads by; its workers run.
        plan: The other plan.
        outlook: What is left.
        tried: By trials, the seconds that all of it takes by number of workers; without both numbers, the model tells.
        last: How long the last epoch took, and how much of that was spent in waiting: no more can be gained.
    """
    fork, cpus = fork_seconds(loader._facts, plan.value("multiprocessing_context")), cpus_of_rank(loader._facts)
    workers, now = before.value("num_workers"), plan.value("num_workers")
    if workers == now:
        return False
    starts = {each: start_seconds(profile, each, cpus, fork_seconds=fork) for each in (workers, now)}
    if not starts.keys() <= tried.keys():
        tried = {each: total_seconds(profile, each, cpus, outlook, fork_seconds=fork) for each in starts}
    staying, changing = tried[workers] - starts[workers], tried[now]
    if last is not None:
        took, waited = (seconds * (1 + outlook.epochs_left) for seconds in last)
        staying, changing = min(staying, took), max(changing, starts[now] + took - waited)
    return changing < staying


def _goes_one_by_one(loader: "AutoLoader[Any]") -> bool:
    """
    Return whether torch fetches a sample for each index of a list, so that no code of the user's gets the list itself.
    """
    fetches = getattr(type(loader.dataset), "__getitems__", None)
    return loader.batch_sampler is not None and (fetches is None or fetches is Subset.__getitems__)
