"""
How an epoch begins: with kept workers, with new ones, or where another process has left it.
"""

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engine.inner import InnerLoader, KeptWorkersDiedError
from ..engine.issue import OtherOrderError
from ..engine.pools import AtOneThread
from ..engine.processes import WorkerStartError
from ..errors import ArgumentError
from ..findings import describe
from ..policy.multiprocessing_context import method_name
from ..probe import probe_memory
from ..profiling import BatchClock
from .course import Beginning, Course, warn_of_restarted_stream
from .deaths import Deaths
from .epochs import samplers_of
from .iterator import LoaderIterator
from .opening import FromWorkers, Glance, Opening
from .resume import Progress
from .settling import fall_back, settings_to_start
from .silence import SilenceReport
from .starting import cpus_for_workers, is_users, start_failed, with_fallback, with_fewer_workers

if TYPE_CHECKING:
    from .auto_loader import AutoLoader


def begin_epoch(
    loader: "AutoLoader[Any]",
    kept: InnerLoader | None,
    settings: dict[str, Any] | None,
    begun: float,
    inline: BatchClock | int | None = None,
) -> LoaderIterator:
    """
    Return the iterator over a new epoch, or over the rest of one that was resumed.

    Args:
        loader: Whose epoch it is.
        kept: The workers that serve it; ``None`` for new ones.
        settings: How new ones load.
        begun: When the user asked for it.
        inline: What times the first batches, or how many there are, where they load inline.
    """
    clock = inline if isinstance(inline, BatchClock) else None
    course, samplers = loader._course, samplers_of(loader.sampler, loader.batch_sampler)
    rank = loader._facts.job.local_rank
    with course.until_begun():
        course.warn_of_repetition(samplers, local_rank=rank, stacklevel=3)
        if settings is not None and loader._style == "iterable":
            course.check_stream(loader.dataset, settings["num_workers"], local_rank=rank, stacklevel=3)
        beginning = _begin_course(loader, samplers, begun)
        if kept is not None and not _can_hear(kept, course):
            loader._inners.drop_kept()
            kept, settings = None, settings_to_start(loader, stacklevel=4)

        inner = kept or _make_inner(loader, settings or {}, resumed=beginning.stream, clock=clock)
        deaths, silence = _deaths(loader, inner), SilenceReport(inner, beginning.record)
        # Kept workers may be stuck in what is left of the last epoch.
        inner.on_silence = weakref.WeakMethod(silence.note)
        inner, source = _start(loader, inner, deaths, beginning)
        course.epochs.forget(None if loader._inners.kept is None else loader._inners.kept.version)
        number, served = beginning.epoch.number, beginning.epoch.skip
        if inner.issued is None and inner.stream is None:
            served = 0
        progress = Progress(number, inner.issued, inner.stream, beginning.begun_with, served=served)
        course.note_begun(progress)
    opening = _opening(loader, inner, source, inline, are_new=inner is not kept)
    iterator = LoaderIterator(
        inner,
        opening,
        progress=progress,
        record=beginning.record,
        deaths=deaths,
        on_exhausted=lambda: course.note_exhausted(samplers),
    )
    if isinstance(opening, Opening | Glance | FromWorkers):
        opening.serve(iterator)
    return iterator


def _begin_course(loader: "AutoLoader[Any]", samplers: list[Any], begun: float) -> Beginning:
    """
    Return the epoch that begins, with its order and its random numbers; dataset and samplers hear what is new.
    """
    course = loader._course
    if loader.seed is not None:
        course.seed_order(loader.seed, loader.sampler, is_ours=loader._makes_order)
    seeds_batches = loader.seed is not None or not is_users(loader.plan.choices["num_workers"])
    keeps_draws = not seeds_batches and is_users(loader.plan.choices["persistent_workers"])
    with loader._inners.knowing_changes(loader._parts(), has_news=course.epochs.has_news):
        return course.begin(
            loader.dataset,
            samplers,
            loader.generator,
            begun=begun,
            seeds_batches=seeds_batches,
            draws_like_new=not keeps_draws,
        )


def _start(
    loader: "AutoLoader[Any]", inner: InnerLoader, deaths: Deaths, beginning: Beginning
) -> tuple[InnerLoader, Any]:
    """
    Return what serves the epoch, *inner* or what took its place, and its iterator.
    """
    with beginning.replay():
        try:
            try:
                news = loader._course.epochs.news_since(inner.version)
                return inner, inner.start_epoch(beginning.epoch._replace(news=news))
            except KeptWorkersDiedError:
                return deaths.renew(inner)
        except OtherOrderError:
            raise ArgumentError(describe("state.other-order", served=beginning.epoch.skip)) from None
        except WorkerStartError as error:
            return _begin_without(loader, inner, error, beginning)


def _opening(
    loader: "AutoLoader[Any]", inner: InnerLoader, source: Any, inline: BatchClock | int | None, *, are_new: bool
) -> Any:
    """
    Return what an epoch draws from at its begin: *source*, or what lets the rest of it load elsewhere.

    Args:
        loader: Whose epoch it is.
        inner: What loads it.
        source: Its iterator.
        inline: What times the first batches, or how many there are, where they load inline.
        are_new: Whether its workers have loaded nothing yet.
    """
    if isinstance(inline, BatchClock):
        return Opening(loader, inner, source, clock=inline, continue_elsewhere=continue_elsewhere)
    if inline is not None:
        return Glance(loader, inner, source, most=inline, continue_elsewhere=continue_elsewhere)
    if inner.has_workers and loader._first.workers.are_timed(loader):
        loader._first.workers.begin_epoch(loader, inner.settings["num_workers"], are_new=are_new)
        return FromWorkers(loader, inner, source, continue_elsewhere=continue_elsewhere)
    return _as_measured(loader, inner, source)


def _as_measured(loader: "AutoLoader[Any]", inner: InnerLoader, source: Any) -> Any:
    """
    Return *source*, which loads with torch at one thread where it loads inline and that was no slower.
    """
    if not inner.has_workers:
        loader._first.note_unseen(loader)
    is_inline = not inner.has_workers and loader.plan.value("backend") != "thread"
    return AtOneThread(source) if is_inline and loader._first.loads_at_one_thread(loader.plan) else source


def continue_elsewhere(
    loader: "AutoLoader[Any]", inner: InnerLoader, settings: dict[str, Any]
) -> tuple[InnerLoader, Any, Deaths]:
    """
    Return what goes on with an epoch that began inline, its iterator, and what is done when its workers die.
    """
    new = _make_inner(loader, settings, replaces=inner)
    try:
        source = new.continue_epoch()
    except WorkerStartError as error:
        found = start_failed(error)
        fall_back(loader, with_fallback(loader.plan, found, loader._style), found, stacklevel=6)
        new = _make_inner(loader, loader._parts().settings(loader.plan, loader.timeout), replaces=new)
        source = new.continue_epoch()
    return new, _as_measured(loader, new, source), _deaths(loader, new)


def _begin_without(
    loader: "AutoLoader[Any]", inner: InnerLoader, error: WorkerStartError, beginning: Beginning
) -> tuple[InnerLoader, Any]:
    """
    Return what begins the epoch in this process, where the system did not let a worker start, and its iterator.
    """
    found = start_failed(error)
    fall_back(loader, with_fallback(loader.plan, found, loader._style), found, stacklevel=5)
    if beginning.stream is not None and beginning.resumed is not None:
        rank = loader._facts.job.local_rank
        warn_of_restarted_stream(beginning.resumed, loader.dataset, 0, local_rank=rank, stacklevel=5)
    settings = loader._parts().settings(loader.plan, loader.timeout)
    if inner.issued is not None:
        inner.issued.begin_again()
    new = _make_inner(loader, settings, replaces=inner)
    return new, new.continue_epoch()


def _can_hear(kept: InnerLoader, course: Course) -> bool:
    """
    Return whether kept workers can be told what is new: it has to be pickled for them.
    """
    news = course.epochs.news_since(kept.version)
    try:
        return news is None or bool(news.wire)
    except Exception:  # noqa: BLE001 (the user's objects may raise anything)
        return False


def _deaths(loader: "AutoLoader[Any]", inner: InnerLoader) -> Deaths:
    if inner.has_workers and inner.memory is None:
        inner.memory = probe_memory().memory
    method = method_name(inner.settings.get("multiprocessing_context"))

    def restart(old: InnerLoader, changes: dict[str, Any]) -> InnerLoader:
        if "num_workers" in changes and not is_users(loader.plan.choices["num_workers"]):
            loader.plan = with_fewer_workers(loader.plan, changes["num_workers"])
        return _make_inner(loader, {**old.settings, **changes}, replaces=old)

    goes_on, lock = loader.on_worker_death == "restart", loader._inners.lock
    return Deaths(restart, goes_on=goes_on, lock=lock, before=inner.memory, method=method)


def _make_inner(
    loader: "AutoLoader[Any]",
    settings: dict[str, Any],
    *,
    replaces: InnerLoader | None = None,
    resumed: Mapping[str, Any] | None = None,
    clock: BatchClock | None = None,
) -> InnerLoader:
    return loader._inners.make(
        loader._parts(),
        loader.plan,
        settings,
        replaces=replaces,
        resumed=resumed,
        version=loader._course.epochs.version,
        on_inline=loader._note_inline if loader.plan.value("backend") == "thread" else None,
        clock=clock,
        is_timed=loader._first.workers.are_timed(loader),
        cpus=cpus_for_workers(loader._facts, loader.numa, settings.get("num_workers", 0)),
    )
