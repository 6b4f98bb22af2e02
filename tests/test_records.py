"""
Records to JSON and back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoloader.facts import HostFacts
from autoloader.plan import Choice, Limit, Note, Plan
from autoloader.records import from_json, is_record, number_text, printable, shortened, to_json
from autoloader.traits import DatasetTraits

T = TypeVar("T")
NO_LIMIT = float("inf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Boxed(Generic[T]):
    value: T


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    count: int
    share: float = 0.5
    is_on: bool = True
    kind: Literal["a", "b"] | None = None
    names: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    inner: Inner | None = None
    boxes: tuple[Boxed[Any], ...] = ()


NUMBERS = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53)
TEXTS = st.text(max_size=20)
RULES = st.from_regex(r"[a-z_]+\.[a-z-]+", fullmatch=True)
VALUES = st.none() | st.integers() | st.booleans() | st.just(NO_LIMIT)

RECORDS = st.builds(
    Record,
    count=st.integers(),
    share=NUMBERS.filter(lambda number: number != -NO_LIMIT),
    is_on=st.booleans(),
    kind=st.sampled_from(["a", "b", None]),
    names=st.lists(TEXTS, max_size=3).map(tuple),
    sources=st.dictionaries(TEXTS, TEXTS, max_size=3),
    inner=st.none() | st.builds(Inner, name=TEXTS),
    boxes=st.lists(
        st.builds(Boxed, value=st.none() | st.integers() | st.booleans() | st.just(NO_LIMIT)), max_size=3
    ).map(tuple),
)

PLANS = st.builds(
    Plan,
    choices=st.dictionaries(
        TEXTS,
        st.builds(
            Choice,
            value=st.none() | st.integers() | st.booleans() | TEXTS.filter(lambda text: text != "no limit"),
            rule=RULES,
            because=TEXTS,
            limits=st.lists(
                st.builds(Limit, rule=RULES, value=st.floats(0, allow_nan=False), because=TEXTS), max_size=2
            ).map(tuple),
        ),
        max_size=3,
    ),
    notes=st.lists(st.builds(Note, finding=RULES, text=TEXTS), max_size=2).map(tuple),
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """
    Return a strategy for the values of a field, with sizes and limits that are 0 or more.
    """
    if is_record(hint):
        return records_of(hint)
    if get_origin(hint) is UnionType:
        return st.one_of(*map(values_of, get_args(hint)))
    if hint == tuple[float, ...]:
        return st.lists(st.floats(0, allow_nan=False)).map(tuple)
    return st.floats(0, allow_nan=False) if hint is float else st.from_type(hint)


def records_of(record_class: Any) -> st.SearchStrategy[Any]:
    """
    Return a strategy for records with every field given.
    """
    return st.builds(record_class, **{name: values_of(hint) for name, hint in get_type_hints(record_class).items()})


def through_json(record: Any) -> Any:
    """
    Return *record* after a trip through JSON text, without what JSON does not have.
    """
    text = json.dumps(to_json(record), allow_nan=False)
    return from_json(type(record), json.loads(text))


@settings(deadline=None)
@given(RECORDS)
def test_record_through_json_is_equal(record: Record) -> None:
    """
    Every kind of field comes back as it was, a missing limit too.
    """
    assert through_json(record) == record


@settings(deadline=None)
@given(PLANS)
def test_plan_through_json_is_equal(plan: Plan) -> None:
    """
    A plan comes back as it was.
    """
    assert through_json(plan) == plan


@settings(deadline=None)
@given(records_of(HostFacts))
def test_facts_through_json_are_equal(facts: HostFacts) -> None:
    """
    Facts of any host come back as they were.
    """
    assert through_json(facts) == facts


@settings(deadline=None)
@given(records_of(DatasetTraits))
def test_traits_through_json_are_equal(traits: DatasetTraits) -> None:
    """
    Traits of any dataset come back as they were.
    """
    assert through_json(traits) == traits


def test_to_json_writes_a_missing_limit_as_text() -> None:
    """
    JSON has no infinity; "no limit" stands for it, and for nothing else.
    """
    assert to_json(Limit(rule="a.b", value=NO_LIMIT, because="c")) == {
        "rule": "a.b",
        "value": "no limit",
        "because": "c",
    }
    assert from_json(Inner, {"name": "no limit"}) == Inner(name="no limit")


def test_from_json_leaves_out_fields_to_their_defaults() -> None:
    """
    A field that has a default may be missing.
    """
    assert from_json(Record, {"count": 1}) == Record(count=1)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param([], "Record should be an object, and is []", id="list"),
        pytest.param(None, "Record should be an object, and is None", id="null"),
        pytest.param({}, "Record lacks the field 'count'", id="missing-field"),
        pytest.param(
            {"count": 1, "zeta": 1, "extra": 2},
            "Record has a field 'extra' that this version does not know",
            id="field-too-many",
        ),
        pytest.param({"count": "1"}, "Record.count should be a whole number, and is '1'", id="text-for-int"),
        pytest.param({"count": 1.0}, "Record.count should be a whole number, and is 1.0", id="float-for-int"),
        pytest.param({"count": True}, "Record.count should be a whole number, and is True", id="bool-for-int"),
        pytest.param({"count": None}, "Record.count should be a whole number, and is None", id="null-for-int"),
        pytest.param({"count": 1, "share": "x"}, "Record.share should be a number, and is 'x'", id="text-for-float"),
        pytest.param(
            {"count": 1, "share": False}, "Record.share should be a number, and is False", id="bool-for-float"
        ),
        pytest.param({"count": 1, "is_on": 1}, "Record.is_on should be true or false, and is 1", id="int-for-bool"),
        pytest.param({"count": 1, "kind": "c"}, "Record.kind should be one of 'a', 'b', and is 'c'", id="literal"),
        pytest.param(
            {"count": 1, "kind": ["a"]}, "Record.kind should be one of 'a', 'b', and is ['a']", id="list-for-literal"
        ),
        pytest.param({"count": 1, "names": "ab"}, "Record.names should be a list, and is 'ab'", id="text-for-list"),
        pytest.param({"count": 1, "names": ["a", 2]}, "Record.names[1] should be text, and is 2", id="list-element"),
        pytest.param({"count": 1, "sources": []}, "Record.sources should be an object, and is []", id="list-for-dict"),
        pytest.param({"count": 1, "sources": {"a": 1}}, "Record.sources.a should be text, and is 1", id="dict-value"),
        pytest.param({"count": 1, "inner": "x"}, "Record.inner should be an object, and is 'x'", id="text-for-record"),
        pytest.param({"count": 1, "inner": {}}, "Record.inner lacks the field 'name'", id="field-of-a-record"),
        pytest.param({"count": 1, "boxes": [{}]}, "Record.boxes[0] lacks the field 'value'", id="record-in-a-list"),
    ],
)
def test_from_json_of_another_layout_names_the_field(data: Any, text: str) -> None:
    """
    What does not fit is named by its path, with what was expected and what is there.
    """
    with pytest.raises(ValueError) as caught:
        from_json(Record, data)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        pytest.param(0, "0", id="zero"),
        pytest.param(7.0, "7", id="whole"),
        pytest.param(2.5, "2.5", id="half"),
        pytest.param(10 / 3, "3.33", id="three-digits"),
        pytest.param(57.6, "57.6", id="tenth"),
        pytest.param(999.4, "999", id="rounded"),
        pytest.param(1_048_576, "1048576", id="no-exponent"),
        pytest.param(1234.5678, "1235", id="whole-from-1000-on"),
        pytest.param(-3.0, "-3", id="negative"),
        pytest.param(NO_LIMIT, "no limit", id="no-limit"),
    ],
)
def test_number_text_has_no_exponent(number: float, text: str) -> None:
    """
    Numbers read as people write them.
    """
    assert number_text(number) == text


@pytest.mark.parametrize("number", [float("nan"), -NO_LIMIT])
def test_number_that_json_cannot_write_is_null(number: float) -> None:
    """
    Only one that is larger than all others has a word of ours.
    """
    assert to_json(Record(count=1, share=number))["share"] is None
    assert json.loads(json.dumps(to_json({"a": [number]}), allow_nan=False)) == {"a": [None]}


def deep(levels: int) -> Any:
    """
    Return lists in lists.
    """
    nested: Any = 1
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("x" * 10_000, id="text"),
        pytest.param(deep(50_000), id="depth"),
        pytest.param({"a" * 10_000: 1}, id="key"),
        pytest.param(["y" * 10_000] * 1000, id="list"),
    ],
)
def test_value_in_an_error_is_cut(data: Any) -> None:
    """
    However long or deep it is.
    """
    with pytest.raises(ValueError) as caught:
        from_json(Record, {"count": 1, "share": data})
    assert len(str(caught.value)) < 300
    assert len(shortened(data)) <= 200


def test_text_in_an_error_is_one_line() -> None:
    """
    Names that come from a file are escaped, and cut.
    """
    assert printable("a\x1b\n\N{SNOWMAN}") == "a\\x1b\\n\N{SNOWMAN}"
    assert printable("x" * 200) == "x" * 97 + "..."
    with pytest.raises(ValueError) as caught:
        from_json(Record, {"count": 1, "sources": {"a\nb" * 100: 3}})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
