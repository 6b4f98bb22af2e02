"""
JSON in and out for the frozen records of facts, traits and plan, and their numbers as text.

A limit that does not exist is ``float("inf")`` in Python and ``"no limit"`` in JSON, which has no infinity.
"""

import reprlib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

_MOST_CHARACTERS = 100
NO_LIMIT = float("inf")
_NO_LIMIT_TEXT = "no limit"

R = TypeVar("R")


def is_record(value: Any) -> bool:
    """
    Return whether *value* is a record or the class of one: a dataclass or a named tuple.
    """
    return hasattr(value, "__dataclass_fields__") or (hasattr(value, "_fields") and hasattr(value, "_field_defaults"))


def field_names(record: Any) -> tuple[str, ...]:
    """
    Return the names of a record's fields, in order; *record* may be its class.
    """
    return tuple(getattr(record, "__dataclass_fields__", None) or record._fields)


def _required(record_class: Any) -> set[str]:
    """
    Return the names of the fields without a default.
    """
    if hasattr(record_class, "_field_defaults"):
        return set(record_class._fields) - set(record_class._field_defaults)
    import dataclasses

    return {
        field.name
        for field in dataclasses.fields(record_class)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }


def to_json(value: Any) -> Any:
    """
    Turn a record, and all that it holds, into what ``json.dumps`` takes.

    A number that JSON has no way to write is ``null``, as what is not known.
    """
    if is_record(value):
        return {name: to_json(getattr(value, name)) for name in field_names(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not -NO_LIMIT < value < NO_LIMIT:
        return _NO_LIMIT_TEXT if value == NO_LIMIT else None
    return value


def from_json(record_class: type[R], data: Any, path: str = "") -> R:
    """
    Build a record of *record_class* from what :func:`to_json` made of one.

    Args:
        record_class: The class of a record.
        data: What ``json.loads`` gave.
        path: Where *data* lies in the whole document, for the error text.

    Raises:
        ValueError: *data* has a field too many, one too few, or one of another type; the text names it.
    """
    where = path or record_class.__name__
    if not isinstance(data, Mapping):
        raise ValueError(f"{printable(where)} should be an object, and is {shortened(data)}")
    hints = typing.get_type_hints(record_class)
    unknown = sorted(set(data) - set(field_names(record_class)))
    if unknown:
        raise ValueError(f"{printable(where)} has a field {shortened(unknown[0])} that this version does not know")
    missing = [name for name in field_names(record_class) if name in _required(record_class) and name not in data]
    if missing:
        raise ValueError(f"{printable(where)} lacks the field {missing[0]!r}")
    return record_class(**{name: from_json_as(hints[name], item, f"{where}.{name}") for name, item in data.items()})


def from_json_as(hint: Any, data: Any, path: str) -> Any:
    """
    Give *data* the type that *hint* asks for.

    Raises:
        ValueError: It has another one; the text names *path*.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return _inverse_limit(data)
    if origin in (typing.Union, types.UnionType):
        return None if data is None else from_json_as(next(a for a in arguments if a is not type(None)), data, path)
    if origin is typing.Literal:
        return _checked(data in arguments, data, path, f"one of {', '.join(map(repr, arguments))}")
    if origin is tuple:
        is_open = arguments[-1] is Ellipsis
        size_text = "a list" if is_open else f"a list of {len(arguments)}"
        _checked(isinstance(data, list) and (is_open or len(data) == len(arguments)), data, path, size_text)
        hints = arguments[:1] * len(data) if is_open else arguments
        items = enumerate(zip(hints, data, strict=True))
        return tuple(from_json_as(each, item, f"{path}[{number}]") for number, (each, item) in items)
    if origin is Mapping:
        _checked(isinstance(data, Mapping), data, path, "an object")
        return {key: from_json_as(arguments[1], item, f"{path}.{key}") for key, item in data.items()}
    if is_record(origin or hint):
        return from_json(typing.cast("type[Any]", origin or hint), data, path)
    return _scalar(hint, data, path)


def _scalar(hint: Any, data: Any, path: str) -> Any:
    """
    Check a string, a truth value or a number; an int is a fine float, a bool is no number.
    """
    value = _inverse_limit(data) if hint is float else data
    accepted = (float, int) if hint is float else hint
    fits = isinstance(value, accepted) and (hint is bool or not isinstance(value, bool))
    expected = {str: "text", bool: "true or false", int: "a whole number"}.get(hint, "a number")
    return _checked(fits, value, path, expected)


def says_yes(word: str | None) -> bool:
    """
    Return whether an environment variable turns something on: it is set, and not to a word that means no.
    """
    return (word or "").strip().lower() not in {"", "0", "false", "no"}


def number_text(number: float) -> str:
    """
    Return *number* in digits without an exponent: whole from 1000 on, with up to three digits below.
    """
    if number == NO_LIMIT:
        return "no limit"
    return f"{number:.0f}" if number >= 1000 or number == int(number) else f"{number:.3g}"


def seconds_text(seconds: float) -> str:
    """
    Return a time as people read it.
    """
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{number_text(seconds / factor)} {unit}"
    return f"{number_text(round(seconds / 1e-6, 1))} us"


def printable(text: str, most: int | None = _MOST_CHARACTERS) -> str:
    """
    Return *text* with escapes in the place of control characters, line ends and what else cannot be seen.

    Args:
        text: From a file or a host.
        most: How many characters are shown; ``None`` for all.
    """
    shown = text if most is None or len(text) <= most else f"{text[: most - 3]}..."
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in shown)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _MOST_CHARACTERS
_REPR.maxlong = 40
_REPR.maxlevel = 3


def shortened(value: Any) -> str:
    """
    Return a value as Python writes it, with the middle left out of what is long.
    """
    return printable(_REPR.repr(value), 2 * _MOST_CHARACTERS)


def _inverse_limit(data: Any) -> Any:
    return NO_LIMIT if data == _NO_LIMIT_TEXT else data


def _checked(fits: bool, data: Any, path: str, expected: str) -> Any:
    if not fits:
        raise ValueError(f"{printable(path)} should be {expected}, and is {shortened(data)}")
    return data
