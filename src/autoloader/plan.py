"""
One choice for each setting of a DataLoader, each with its reason.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import ArgumentError, PlanFileError
from .findings import describe
from .records import NO_LIMIT, from_json, number_text, to_json

SCHEMA = 1
"""
The number of this layout of a plan's JSON.
"""

T = TypeVar("T")

NEEDS_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
"""
Arguments that torch refuses, at construction or when iterated, without worker processes.
"""

ALWAYS_DECIDED = (
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory",
    "multiprocessing_context",
    "backend",
)
"""
What every plan decides.
"""

PASSED_ON = ("in_order", "timeout")
"""
Arguments that are the user's alone: part of a plan only when given.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """
    One upper bound that was looked at on the way to a choice.
    """

    rule: str
    """Rule id that the choice has when this bound is the smallest."""
    value: float
    """The most that this bound allows; infinite where it allows anything."""
    because: str
    """The fact behind it, with its unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice(Generic[T]):
    """
    One setting, and why it is so.
    """

    value: T
    """What the DataLoader gets; ``None`` leaves the argument out."""
    rule: str
    """The stable id of the rule that decided."""
    because: str
    """The fact that decided, in one sentence."""
    limits: tuple[Limit, ...] = ()
    """Bounds that were looked at and did not decide, smallest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """
    Something about the host or the dataset that is worth changing.
    """

    finding: str
    """Id in the catalogue of findings."""
    text: str
    """What is wrong, because of which fact, and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderRequest:
    """
    What the caller of ``auto_loader`` gave.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the user set, by name; those left out are autoloader's to choose."""
    batch_size: int | None = 1
    """Samples a batch; ``None`` where the dataset or a batch sampler makes the batches."""
    epochs: int | None = None
    """Passes over the dataset that the user expects; ``None`` means many."""
    drop_last: bool = False
    """Whether a last batch that is not full is dropped."""
    has_worker_init: bool = False
    """Whether there is a ``worker_init_fn``: samples may not be what they should where it has not run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """
    The settings of one loader: ``DataLoader(dataset, 64, **plan.as_kwargs())``.
    """

    choices: Mapping[str, Choice[Any]]
    """One choice for each argument that autoloader decides, by the argument's name."""
    notes: tuple[Note, ...] = ()
    """Findings that the user may want to act on."""
    schema: int = field(default=SCHEMA)
    """The layout of this record, see :data:`SCHEMA`."""

    def value(self, name: str) -> Any:
        """
        Return the value chosen for the argument *name*, ``None`` where there is none.
        """
        return self.choices[name].value if name in self.choices else None

    @property
    def has_users_workers(self) -> bool:
        """
        Return whether the user asked for workers, by their number or by an argument that needs some.
        """
        return self.choices["num_workers"].rule in {"num_workers.fixed", "num_workers.needed"}

    def as_kwargs(self) -> dict[str, Any]:
        """
        Return the arguments for ``torch.utils.data.DataLoader``, legal together whatever was chosen.

        Without workers torch refuses ``prefetch_factor``, ``multiprocessing_context`` and ``timeout``: they are left
        out then, unless the user gave them, whose contradiction is torch's to report. ``persistent_workers`` is in it
        only when the user set it: what changes in the dataset between epochs does not reach the persistent workers of
        a plain DataLoader, and only an AutoLoader takes care of that.
        """
        has_workers = bool(self.value("num_workers")) and (self.value("backend") == "process" or self.has_users_workers)
        kwargs = {} if has_workers else {"num_workers": 0}
        for name, choice in self.choices.items():
            is_users = choice.rule == f"{name}.fixed"
            is_allowed = is_users or (name != "persistent_workers" and (has_workers or name not in NEEDS_WORKERS))
            if name not in {"backend", *kwargs} and choice.value is not None and is_allowed:
                kwargs[name] = choice.value
        return kwargs

    def explain(self, name: str | None = None) -> str:
        """
        Return why the argument *name* has its value, and which limits did not bind; all arguments without *name*.

        Raises:
            ArgumentError: The plan decides no argument of that name.
        """
        if name is None:
            return "\n\n".join(self.explain(each) for each in self.choices)
        if name not in self.choices:
            raise ArgumentError(describe("argument.not-in-plan", value=name, known=", ".join(self.choices)))
        choice = self.choices[name]
        lines = [f"{name} = {_short(choice.value)}", f"  rule: {choice.rule}", f"  because: {choice.because}"]
        for limit in choice.limits:
            allows = "anything" if limit.value == NO_LIMIT else number_text(limit.value)
            lines.append(f"  did not bind: {limit.rule} allows {allows} ({limit.because})")
        return "\n".join(lines)

    def with_fixed(self, fixed: Mapping[str, Any], *, may_be_shown: bool = True) -> "Plan":
        """
        Return this plan with the user's own values in place.

        Args:
            fixed: The values by the names of their arguments.
            may_be_shown: Whether they may be what a loader of this plan shows as its attributes, for frameworks to make
                another one from: a value that is the plan's already keeps its reason then, and so does False for
                workers that stay without the user's asking.
        """
        shown = {"persistent_workers": False, **self.as_kwargs()}
        changed = {
            name: Choice(value=value, rule=f"{name}.fixed", because="you set it")
            for name, value in fixed.items()
            if not may_be_shown
            or name not in self.choices
            or plain(value) not in (plain(self.choices[name].value), shown.get(name))
        }
        return replace(self, choices={**self.choices, **changed}) if changed else self

    def to_json(self) -> str:
        """
        Return this plan as JSON text.

        A multiprocessing context of the user's stands there by its method's name, a number of numpy's as Python's.
        """
        return json.dumps(to_json(self), indent=2, default=_as_json)

    def save(self, path: str | Path) -> None:
        """
        Write this plan as JSON, for ``auto_loader(..., plan=path)`` and :meth:`load`.
        """
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        """
        Read a plan that :meth:`save` wrote, or the plan of a calibration from what ``calibrate --json`` printed.

        Raises:
            PlanFileError: There is no such file, it is no JSON, or it has another layout.
        """
        where = str(path)
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise PlanFileError(describe("plan.unreadable", path=where, reason=error.strerror or error)) from error
        except (ValueError, RecursionError) as error:
            raise PlanFileError(describe("plan.malformed", path=where, reason=f"it is not JSON ({error})")) from error
        if isinstance(data, dict) and isinstance(data.get("plan"), dict):
            data = data["plan"]
        schema = data.get("schema") if isinstance(data, dict) else SCHEMA
        if schema != SCHEMA:
            raise PlanFileError(describe("plan.other-schema", path=where, schema=schema, known=SCHEMA))
        try:
            return plan_from_json(data)
        except ValueError as error:
            raise PlanFileError(describe("plan.malformed", path=where, reason=error)) from error

    def __str__(self) -> str:
        rows = [(f"{name}={_short(choice.value)}", choice) for name, choice in self.choices.items()]
        width = max((len(setting) for setting, _ in rows), default=0)
        lines = [f"{setting:<{width}}  {choice.because} [{choice.rule}]" for setting, choice in rows]
        return "\n".join([*lines, *(f"note: {note.text} [{note.finding}]" for note in self.notes)])


def plan_from_json(data: Any) -> Plan:
    """
    Return the plan that :meth:`Plan.to_json` gave, of this layout.

    Raises:
        ValueError: It is none.
    """
    plan = from_json(Plan, data)
    _check_names(plan.choices)
    return plan


def plain(value: Any) -> Any:
    """
    Return a multiprocessing context of the user's by its method's name, and everything else as it is.
    """
    method = getattr(value, "get_start_method", None)
    return value if method is None else method()


def _as_json(value: Any) -> Any:
    """
    Return what stands in JSON for a value of the user's that JSON does not know.
    """
    item = getattr(value, "item", None)
    return plain(value) if item is None else item()


def _check_names(choices: Mapping[str, object]) -> None:
    """
    Check that a plan decides what a loader asks it for, and nothing that DataLoader does not know.

    Raises:
        ValueError: It does not; the text names the argument.
    """
    for name in ALWAYS_DECIDED:
        if name not in choices:
            raise ValueError(f"Plan.choices lacks {name!r}")
    for name in choices:
        if name not in (*ALWAYS_DECIDED, *PASSED_ON):
            raise ValueError(f"Plan.choices has {name!r}, which this version does not decide")


def _short(value: object) -> str:
    return "torch's default" if value is None else str(plain(value))


def smallest(limits: Iterable[Limit]) -> tuple[Limit, tuple[Limit, ...]]:
    """
    Return the limit that binds and the others, smallest first; of equal ones the first given binds.
    """
    binding, *others = sorted(limits, key=lambda limit: limit.value)
    return binding, tuple(others)
