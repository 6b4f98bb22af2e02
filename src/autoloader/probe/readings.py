"""
Collects the values of one group of facts together with their sources.
"""

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


class Readings:
    """
    Values read so far, by field name; what is ``None`` has no source.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._sources: dict[str, str] = {}

    def put(self, name: str, value: Any, source: str) -> Any:
        """
        Note *value* for the field *name* and return it.
        """
        self._values[name] = value
        if value is not None and value != ():
            self._sources[name] = source
        return value

    def build(self, record_class: Callable[..., R]) -> R:
        """
        Return the record of these values.
        """
        return record_class(**self._values, sources=self._sources)

    def extend(self, record: R) -> R:
        """
        Return *record*, which knows some of its fields already, with what of these values is known.
        """
        known = {name: self._values[name] for name in self._sources}
        facts: Any = record
        extended: R = facts._replace(**known, sources={**facts.sources, **self._sources})
        return extended
