"""
The records of facts, traits and plan, as documents: each field says what it means.
"""

import ast
import dataclasses
import inspect
import json
from types import ModuleType
from typing import Any

import pytest

from autoloader import facts, plan, traits
from autoloader.facts import SCHEMA, HostFacts, JobFacts, LimitFacts, ProcessFacts
from autoloader.records import field_names, from_json, is_record, to_json


def records_in(module: ModuleType) -> list[type]:
    """
    Return the records that a module defines.
    """
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and is_record(value) and value.__module__ == module.__name__
    ]


RECORDS = [
    pytest.param(record, id=record.__name__) for module in (facts, traits, plan) for record in records_in(module)
]


def documented_fields(record: type) -> dict[str, str | None]:
    """
    Return each field of a record with the text that stands under it.
    """
    definition = ast.parse(inspect.getsource(record)).body[0]
    assert isinstance(definition, ast.ClassDef)
    followers = dict(zip(definition.body, [*definition.body[1:], None], strict=True))
    found = {}
    for node, follower in followers.items():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant)
            found[node.target.id] = str(follower.value.value) if is_text else None  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("record", RECORDS)
def test_record_documents_each_field(record: type) -> None:
    """
    Under each field stands a sentence on what it means.
    """
    fields = documented_fields(record)
    assert tuple(fields) == field_names(record)
    assert [name for name, text in fields.items() if not (text and text.endswith("."))] == []


@pytest.mark.parametrize("record", RECORDS)
def test_record_is_frozen_and_takes_no_other_field(record: type) -> None:
    """
    A record cannot be changed and has no place for more than its fields.
    """
    parameters: Any = getattr(record, "__dataclass_params__", None)
    assert issubclass(record, tuple) or (parameters.frozen and "__slots__" in vars(record))
    assert not hasattr(record, "__dict__") or "__dict__" not in dir(record)
    assert record.__doc__ is not None
    assert not record.__doc__.startswith(f"{record.__name__}(")


@pytest.mark.parametrize("module", [traits, plan], ids=["traits", "plan"])
def test_dataclass_records_take_keywords_only(module: ModuleType) -> None:
    """
    Fields are given by name.
    """
    records: list[Any] = records_in(module)
    assert {field.kw_only for record in records for field in dataclasses.fields(record)} == {True}


def test_every_group_of_facts_is_optional() -> None:
    """
    A host that tells nothing is a record, too.
    """
    empty = HostFacts()
    unknown = {
        f"{group}.{field}": getattr(getattr(empty, group), field)
        for group in field_names(HostFacts)
        if group != "schema"
        for field in field_names(getattr(empty, group))
    }
    assert {value for value in unknown.values() if value not in ({}, ())} == {None}


def test_facts_as_json_have_every_field() -> None:
    """
    What is unknown stands in JSON as null.
    """
    data = json.loads(json.dumps(to_json(HostFacts())))
    assert data["schema"] == SCHEMA
    assert data["cpu"]["usable_cpus"] is None
    assert set(data) == set(field_names(HostFacts))


def test_facts_from_json_are_the_facts() -> None:
    """
    A record of a host can be read again.
    """
    host = HostFacts(
        limits=LimitFacts(open_files_soft=1024, pids_headroom=float("inf")),
        job=JobFacts(local_world_size=1, sources={"local_world_size": "no launcher's variable is set"}),
        process=ProcessFacts(other_threads=("writer", "it's"), native_threads=3, fork_unsafe_modules=("jax",)),
    )
    assert from_json(HostFacts, json.loads(json.dumps(to_json(host)))) == host
