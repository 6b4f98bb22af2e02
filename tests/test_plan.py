"""
Plans: their arguments, their texts and their files.
"""

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoloader.calibration import Calibration
from autoloader.errors import ArgumentError, PlanFileError
from autoloader.plan import ALWAYS_DECIDED, SCHEMA, Choice, Limit, Note, Plan, smallest
from autoloader.traits import Profile

NO_LIMIT = float("inf")

PLAN = Plan(
    choices={
        "num_workers": Choice(
            value=6,
            rule="num_workers.cpu-count",
            because="8 usable CPUs (logical), less 2 for training",
            limits=(
                Limit(rule="num_workers.memory", value=57.5, because="4 GiB free"),
                Limit(rule="num_workers.batches-per-epoch", value=5_000_000, because="10000000 batches an epoch"),
                Limit(rule="num_workers.open-files", value=NO_LIMIT, because="open files are not limited"),
            ),
        ),
        "prefetch_factor": Choice(value=2, rule="prefetch_factor.default", because="torch's default"),
        "persistent_workers": Choice(value=True, rule="persistent_workers.many-epochs", because="many epochs"),
        "pin_memory": Choice(value=False, rule="pin_memory.no-accelerator", because="no device was found"),
        "multiprocessing_context": Choice(
            value=None, rule="multiprocessing_context.process-default", because="it is not known"
        ),
        "backend": Choice(value="process", rule="backend.workers", because="worker processes can start here"),
    },
    notes=(Note(finding="host.cpu-quota", text="A quota grants 2 CPUs of 64."),),
)
INLINE = Plan(
    choices={
        **PLAN.choices,
        "num_workers": Choice(value=0, rule="num_workers.in-memory", because="samples are slices"),
        "multiprocessing_context": Choice(value="fork", rule="multiprocessing_context.quiet-process", because="quiet"),
        "backend": Choice(value="inline", rule="backend.no-workers", because="there are no workers"),
    }
)

INLINE_BACKEND = Choice(value="inline", rule="backend.daemonic", because="this process is daemonic")
NEEDED = Choice(value=1, rule="num_workers.needed", because="you set prefetch_factor")
KEPT = replace(
    PLAN,
    choices={
        **PLAN.choices,
        "backend": Choice(value="thread", rule="backend.daemonic", because="this process is daemonic"),
    },
)
"""
Six workers are wanted, and none may start.
"""

TEXT = """\
num_workers=6                            8 usable CPUs (logical), less 2 for training [num_workers.cpu-count]
prefetch_factor=2                        torch's default [prefetch_factor.default]
persistent_workers=True                  many epochs [persistent_workers.many-epochs]
pin_memory=False                         no device was found [pin_memory.no-accelerator]
multiprocessing_context=torch's default  it is not known [multiprocessing_context.process-default]
backend=process                          worker processes can start here [backend.workers]
note: A quota grants 2 CPUs of 64. [host.cpu-quota]
"""

EXPLANATION = """\
num_workers = 6
  rule: num_workers.cpu-count
  because: 8 usable CPUs (logical), less 2 for training
  did not bind: num_workers.memory allows 57.5 (4 GiB free)
  did not bind: num_workers.batches-per-epoch allows 5000000 (10000000 batches an epoch)
  did not bind: num_workers.open-files allows anything (open files are not limited)
"""


def test_plan_as_text_is_a_table_of_reasons() -> None:
    """
    Each choice is a line with its reason and rule, and the notes follow.
    """
    assert f"{PLAN}\n" == TEXT


def test_plan_explains_one_argument_with_its_limits() -> None:
    """
    An explanation shows value, rule, reason, and what did not bind, smallest first and without exponents.
    """
    assert f"{PLAN.explain('num_workers')}\n" == EXPLANATION


def test_plan_explains_what_is_left_to_torch() -> None:
    """
    An argument that is left out has a reason, too.
    """
    assert PLAN.explain("multiprocessing_context").splitlines() == [
        "multiprocessing_context = torch's default",
        "  rule: multiprocessing_context.process-default",
        "  because: it is not known",
    ]


def test_plan_explains_every_argument_without_a_name() -> None:
    """
    All explanations follow each other, with an empty line between them.
    """
    assert PLAN.explain() == "\n\n".join(PLAN.explain(name) for name in ALWAYS_DECIDED)


def test_plan_explain_of_an_unknown_argument_names_the_known() -> None:
    """
    Asking for what a plan does not decide is a mistake in the call.
    """
    with pytest.raises(ArgumentError) as caught:
        PLAN.explain("batch_size")
    assert str(caught.value) == (
        "name='batch_size' is not in this plan: it decides num_workers, prefetch_factor, persistent_workers, "
        "pin_memory, multiprocessing_context, backend. Ask for one of these."
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param("num_workers", 6, id="decided"), pytest.param("batch_size", None, id="not-decided")],
)
def test_plan_value_of_an_argument_is_its_choice(name: str, value: Any) -> None:
    """
    What a plan does not decide has no value.
    """
    assert PLAN.value(name) == value


@pytest.mark.parametrize(
    ("plan", "kwargs"),
    [
        pytest.param(
            PLAN,
            {"num_workers": 6, "prefetch_factor": 2, "pin_memory": False},
            id="with-workers",
        ),
        pytest.param(
            PLAN.with_fixed({"persistent_workers": True, "num_workers": 1}),
            {"num_workers": 1, "prefetch_factor": 2, "pin_memory": False},
            id="workers-that-stay-without-the-user's-asking",
        ),
        pytest.param(INLINE, {"num_workers": 0, "pin_memory": False}, id="without-workers"),
        pytest.param(
            INLINE.with_fixed({"prefetch_factor": 4, "timeout": 5, "in_order": False}),
            {"num_workers": 0, "prefetch_factor": 4, "pin_memory": False, "timeout": 5, "in_order": False},
            id="without-workers-but-with-the-user's",
        ),
        pytest.param(
            PLAN.with_fixed({"num_workers": 0}), {"num_workers": 0, "pin_memory": False}, id="workers-taken-away"
        ),
        pytest.param(
            INLINE.with_fixed({"num_workers": 2}),
            {
                "num_workers": 2,
                "prefetch_factor": 2,
                "pin_memory": False,
                "multiprocessing_context": "fork",
            },
            id="workers-added",
        ),
        pytest.param(KEPT, {"num_workers": 0, "pin_memory": False}, id="kept-from-workers"),
        pytest.param(
            replace(KEPT, choices={**KEPT.choices, "backend": INLINE_BACKEND}),
            {"num_workers": 0, "pin_memory": False},
            id="kept-from-workers-of-a-stream",
        ),
        pytest.param(
            KEPT.with_fixed({"timeout": 5, "persistent_workers": False}),
            {"num_workers": 0, "pin_memory": False, "timeout": 5},
            id="kept-from-workers-but-with-the-user's",
        ),
        pytest.param(
            KEPT.with_fixed({"num_workers": 2}),
            {"num_workers": 2, "prefetch_factor": 2, "pin_memory": False},
            id="the-user's-workers-are-never-kept",
        ),
        pytest.param(
            replace(KEPT, choices={**KEPT.choices, "num_workers": NEEDED}),
            {"num_workers": 1, "prefetch_factor": 2, "pin_memory": False},
            id="needed-workers-are-never-kept",
        ),
        pytest.param(Plan(choices={}), {"num_workers": 0}, id="empty"),
    ],
)
def test_plan_as_kwargs_are_legal_together(plan: Plan, kwargs: dict[str, Any]) -> None:
    """
    What torch refuses without workers is left out then, unless the user gave it; the backend is no argument of torch's.
    """
    assert plan.as_kwargs() == kwargs


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(PLAN, False, id="ours"),
        pytest.param(PLAN.with_fixed({"num_workers": 2}), True, id="the-user's-number"),
        pytest.param(replace(KEPT, choices={**KEPT.choices, "num_workers": NEEDED}), True, id="needed-by-an-argument"),
    ],
)
def test_plan_knows_whether_the_user_asked_for_workers(plan: Plan, expected: bool) -> None:
    """
    By their number, or by an argument that torch accepts with workers only.
    """
    assert plan.has_users_workers is expected


def test_plan_with_fixed_zero_where_workers_are_kept_is_the_plan_itself() -> None:
    """
    The 0 that such a plan shows as its argument is the plan's own value, not the user's.
    """
    assert KEPT.with_fixed({"num_workers": 0}) is KEPT
    assert KEPT.with_fixed(KEPT.as_kwargs()) is KEPT


def test_plan_with_fixed_gives_the_user_the_reason() -> None:
    """
    A value of the user's takes the place of the plan's, under the rule ``fixed``.
    """
    choice = PLAN.with_fixed({"num_workers": 2}).choices["num_workers"]
    assert choice == Choice(value=2, rule="num_workers.fixed", because="you set it")
    assert PLAN.value("num_workers") == 6


@pytest.mark.parametrize(
    "fixed",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"num_workers": 6, "pin_memory": False}, id="the-plan's-own"),
    ],
)
def test_plan_with_fixed_values_of_its_own_is_the_plan_itself(fixed: dict[str, Any]) -> None:
    """
    A value that is the plan's already keeps its reason.
    """
    assert PLAN.with_fixed(fixed) is PLAN


def test_plan_with_fixed_context_compares_it_by_its_method() -> None:
    """
    A context object for the method that was chosen is the same choice.
    """
    spawned = PLAN.with_fixed({"multiprocessing_context": "spawn"})
    context = multiprocessing.get_context("spawn")
    assert spawned.with_fixed({"multiprocessing_context": context}) is spawned
    assert "multiprocessing_context=spawn " in str(PLAN.with_fixed({"multiprocessing_context": context}))


@pytest.mark.parametrize("plan", [pytest.param(PLAN, id="workers"), pytest.param(INLINE, id="inline")])
def test_plan_saved_and_loaded_is_equal(plan: Plan, tmp_path: Path) -> None:
    """
    A file holds all of a plan, and can be given as text or as a path.
    """
    path = tmp_path / "plan.json"
    plan.save(path)
    assert Plan.load(path) == plan
    assert Plan.load(str(path)) == plan
    assert path.read_text(encoding="utf-8") == f"{plan.to_json()}\n"


def test_plan_saved_with_a_context_holds_its_method(tmp_path: Path) -> None:
    """
    A context object is written as the name of its method.
    """
    path = tmp_path / "plan.json"
    PLAN.with_fixed({"multiprocessing_context": multiprocessing.get_context("spawn")}).save(path)
    assert Plan.load(path).value("multiprocessing_context") == "spawn"


def test_plan_saved_with_numbers_of_numpy_holds_pythons(tmp_path: Path) -> None:
    """
    A count that the user took from an array is written as a number.
    """
    numpy = pytest.importorskip("numpy", reason="needs numpy")
    path = tmp_path / "plan.json"
    PLAN.with_fixed({"num_workers": numpy.int64(3), "pin_memory": numpy.bool_(True)}).save(path)
    plan = Plan.load(path)
    assert [(type(plan.value(name)), plan.value(name)) for name in ("num_workers", "pin_memory")] == [
        (int, 3),
        (bool, True),
    ]


def test_plan_saved_with_the_users_own_arguments_is_equal(tmp_path: Path) -> None:
    """
    Arguments that are part of a plan only when given come back, too.
    """
    path = tmp_path / "plan.json"
    plan = PLAN.with_fixed({"timeout": 2.5, "in_order": False})
    plan.save(path)
    assert Plan.load(path) == plan


def test_plan_as_json_has_its_schema_and_no_infinity() -> None:
    """
    A missing limit is text in JSON, and the layout has a number.
    """
    data = json.loads(PLAN.to_json(), parse_constant=pytest.fail)
    assert data["schema"] == SCHEMA
    assert data["choices"]["num_workers"]["limits"][2]["value"] == "no limit"


def _data(**changes: Any) -> dict[str, Any]:
    """
    Return the JSON of a plan with *changes* at its top.
    """
    return {**json.loads(PLAN.to_json()), **changes}


def _choices(**changes: Any) -> dict[str, Any]:
    """
    Return the JSON of a plan with *changes* in its choices, ``None`` for those to leave out.
    """
    choices = {**_data()["choices"], **changes}
    return _data(choices={name: choice for name, choice in choices.items() if choice is not None})


CHOICE = {"value": 1, "rule": "a.b", "because": "c"}
PATH = "Check the path, or write the file with Plan.save."
WRITE = "Write it again with Plan.save, or leave plan= out."

FILES = [
    pytest.param(
        "{]",
        "is not a plan: it is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))",
        id="broken-json",
    ),
    pytest.param("", "is not a plan: it is not JSON (Expecting value: line 1 column 1 (char 0))", id="empty"),
    pytest.param([], "is not a plan: Plan should be an object, and is []", id="list"),
    pytest.param(None, "is not a plan: Plan should be an object, and is None", id="null"),
    pytest.param('"plan"', "is not a plan: Plan should be an object, and is 'plan'", id="text"),
    pytest.param({}, "has another layout: its schema is None, and this version reads 1", id="no-schema"),
    pytest.param(_data(schema=2), "has another layout: its schema is 2, and this version reads 1", id="newer-schema"),
    pytest.param(
        _data(schema="1"), "has another layout: its schema is '1', and this version reads 1", id="schema-as-text"
    ),
    pytest.param(
        _data(schema=True), "is not a plan: Plan.schema should be a whole number, and is True", id="schema-as-truth"
    ),
    pytest.param({"schema": 1}, "is not a plan: Plan lacks the field 'choices'", id="no-choices"),
    pytest.param(
        _data(extra=1), "is not a plan: Plan has a field 'extra' that this version does not know", id="field-too-many"
    ),
    pytest.param(
        _data(choices=[]), "is not a plan: Plan.choices should be an object, and is []", id="choices-as-a-list"
    ),
    pytest.param(_data(choices={}), "is not a plan: Plan.choices lacks 'num_workers'", id="choices-empty"),
    pytest.param(_choices(backend=None), "is not a plan: Plan.choices lacks 'backend'", id="no-backend"),
    pytest.param(
        _choices(batch_size=CHOICE),
        "is not a plan: Plan.choices has 'batch_size', which this version does not decide",
        id="choice-too-many",
    ),
    pytest.param(
        _choices(num_workers=4),
        "is not a plan: Plan.choices.num_workers should be an object, and is 4",
        id="bare-value",
    ),
    pytest.param(
        _choices(num_workers={"value": 4, "rule": "a.b"}),
        "is not a plan: Plan.choices.num_workers lacks the field 'because'",
        id="choice-without-a-reason",
    ),
    pytest.param(
        _choices(num_workers={**CHOICE, "rule": 1}),
        "is not a plan: Plan.choices.num_workers.rule should be text, and is 1",
        id="rule-as-a-number",
    ),
    pytest.param(
        _choices(num_workers={**CHOICE, "limits": [{**CHOICE, "value": "x"}]}),
        "is not a plan: Plan.choices.num_workers.limits[0].value should be a number, and is 'x'",
        id="limit-as-text",
    ),
    pytest.param(
        _data(notes=[{"finding": "a.b"}]), "is not a plan: Plan.notes[0] lacks the field 'text'", id="note-without-text"
    ),
]


@pytest.mark.parametrize(("content", "text"), FILES)
def test_plan_load_of_another_file_says_what_is_wrong(content: Any, text: str, tmp_path: Path) -> None:
    """
    A file that holds no plan of this layout is named, with the place that does not fit and what to do.
    """
    path = tmp_path / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(PlanFileError) as caught:
        Plan.load(path)
    assert str(caught.value) == f"plan={str(path)!r} {text}. {WRITE}"
    assert caught.value.exit_code == 3


def test_plan_of_a_calibration_is_read_from_its_json(tmp_path: Path) -> None:
    """
    Who has printed it into a file passes that as plan=.
    """
    profile = Profile(batches=2, batch_samples=1, sample_seconds=0.01, sample_cpu_seconds=0.0)
    path = tmp_path / "found.json"
    path.write_text(Calibration(plan=PLAN, profile=profile).to_json(), encoding="utf-8")
    assert Plan.load(path) == PLAN


def test_plan_load_of_a_missing_file_says_why(tmp_path: Path) -> None:
    """
    A file that is not there is named, with the system's reason, which is chained.
    """
    path = tmp_path / "plan.json"
    with pytest.raises(PlanFileError) as caught:
        Plan.load(path)
    assert str(caught.value) == f"plan={str(path)!r} cannot be read: No such file or directory. {PATH}"
    assert (caught.value.exit_code, type(caught.value.__cause__)) == (3, FileNotFoundError)


def test_plan_load_of_a_folder_says_why(tmp_path: Path) -> None:
    """
    A folder is no file.
    """
    with pytest.raises(PlanFileError, match="cannot be read: "):
        Plan.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xff\xfe\x00", id="not-utf-8"),
        pytest.param(b"[" * 100_000, id="endless-nesting"),
        pytest.param(b"\x80\x04K\x01.", id="pickle"),
    ],
)
def test_plan_load_of_other_bytes_says_that_it_is_not_json(content: bytes, tmp_path: Path) -> None:
    """
    Whatever lies in a file, the error is the one for plan files.
    """
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(PlanFileError, match=r"is not a plan: it is not JSON \("):
        Plan.load(path)


def test_smallest_of_equal_limits_is_the_first() -> None:
    """
    The limit that binds is the smallest, the first of equal ones; the others follow in order.
    """
    one, first, second, infinite = (
        Limit(rule=rule, value=value, because="") for rule, value in (("a", 3), ("z", 2), ("b", 2), ("d", NO_LIMIT))
    )
    assert smallest([infinite, one, first, second]) == (first, (second, one, infinite))


def test_plan_cannot_be_changed() -> None:
    """
    A plan is a record; a changed one is another.
    """
    with pytest.raises(AttributeError):
        PLAN.notes = ()  # type: ignore[misc]
    assert replace(PLAN, notes=()).notes == ()
