"""
A host's answers in one JSON document, and the host that such a document replays.

The document holds, for each question of :class:`HostIO` that was asked, the answer; where the question takes an
argument, an object of answers by argument. A question that is not in it gets the answer of a host that does not say.
``synthetic`` is ``null`` in what a probe recorded; a document that was written by hand names its source there.
"""

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..records import from_json_as, to_json
from .questions import HostIO, MainModule

SCHEMA = 1

WITH_ARGUMENT = (
    *("read_text", "list_dir", "real_path", "is_writable", "disk_space", "resource_limit"),
    *("sysctl_number", "sysctl_text", "drive_kind"),
)
"""
The questions that take one argument, a text.
"""

_QUESTIONS = tuple(name for name in vars(HostIO) if not name.startswith("_") and name != "pause")
_MOUNT_SOURCE = re.compile(r"( - \S+ )(?://[^/\s]+|[^/\s]+:(?=/))")
_MOUNT_OPTION = re.compile(r"(?<=[ ,])((?:client|mount)?addr|user|username|domain|mon_addr)=[^,\s]+")


class Recorder:
    """
    Passes each question on to a host, and keeps the answers.

    Args:
        io: The host.
    """

    def __init__(self, io: HostIO) -> None:
        self._io = io
        self._answers: dict[str, Any] = {}

    @property
    def platform(self) -> str:
        """
        Return Python's name for the operating system.
        """
        self._keep("platform", self._io.platform)
        return self._io.platform

    @property
    def environment(self) -> Mapping[str, str]:
        """
        Return the environment variables; those that are looked up are kept.
        """
        return _Watched(self._io.environment, self._answers.setdefault("environment", {}))

    def loaded_modules(self, names: Iterable[str]) -> tuple[str, ...]:
        """
        Return those of the modules that are loaded, and keep them with those of other calls.
        """
        found = self._io.loaded_modules(names)
        self._answers["loaded_modules"] = sorted({*self._answers.get("loaded_modules", ()), *found})
        return found

    def pause(self) -> None:
        """
        Wait as the host does.
        """
        self._io.pause()

    def _keep(self, question: str, answer: Any) -> Any:
        self._answers[question] = to_json(answer)
        return answer

    def __getattr__(self, question: str) -> Any:
        if question not in _QUESTIONS:
            raise AttributeError(question)
        ask = getattr(self._io, question)
        if question not in WITH_ARGUMENT:
            return lambda: self._keep(question, ask())

        def ask_and_keep(argument: str) -> Any:
            answer = ask(argument)
            self._answers.setdefault(question, {})[argument] = to_json(answer)
            return answer

        return ask_and_keep

    def document(self, private: Mapping[str, str]) -> dict[str, Any]:
        """
        Return all that was answered.

        Args:
            private: Words that are replaced wherever they stand alone, names of users and hosts for instance, and what
                stands in their place.
        """
        return {"schema": SCHEMA, "synthetic": None, "answers": _without(self._answers, private)}


class _Watched(Mapping[str, str]):
    """
    A mapping that notes in another one what is looked up in it.
    """

    def __init__(self, values: Mapping[str, str], seen: dict[str, str]) -> None:
        self._values, self._seen = values, seen

    def __getitem__(self, name: str) -> str:
        value = self._values[name]
        self._seen[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _without(value: Any, private: Mapping[str, str]) -> Any:
    """
    Replace private words, and the servers and users of network mounts, in all texts of a document.
    """
    if isinstance(value, Mapping):
        return {_without(key, private): _without(item, private) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(item, private) for item in value]
    if not isinstance(value, str):
        return value
    for word, instead in private.items():
        value = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", instead, value)
    return _MOUNT_OPTION.sub(r"\1=private", _MOUNT_SOURCE.sub(r"\1server:", value))


class ReplayedHost:
    """
    A host that gives the answers of a document.

    Args:
        document: What :meth:`Recorder.document` returned, or what was written by hand in its place.

    Raises:
        ValueError: It is no such document; the text says what is wrong.
    """

    def __init__(self, document: Any) -> None:
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise ValueError(f"a recorded host should be an object with 'schema' {SCHEMA}")
        answers = document.get("answers")
        if not isinstance(answers, Mapping):
            raise ValueError("a recorded host should have 'answers', an object")
        unknown = sorted(set(answers) - set(_QUESTIONS))
        if unknown:
            raise ValueError(f"a recorded host has answers to {unknown[0]!r}, which no probe asks")
        self._answers = {question: _typed(question, answer) for question, answer in answers.items()}
        self.unused = {(question, None) for question in answers if question not in WITH_ARGUMENT}
        """Answers that nobody has asked for yet: the questions and their arguments."""
        self.unused |= {(question, each) for question in WITH_ARGUMENT for each in answers.get(question, ())}
        self.unanswered: set[tuple[str, str | None]] = set()
        """Questions that were asked and have no answer here."""

    @property
    def platform(self) -> str:
        """
        Return Python's name for the operating system.
        """
        return str(self._answer("platform") or "linux")

    @property
    def environment(self) -> Mapping[str, str]:
        """
        Return the environment variables.
        """
        variables: Mapping[str, str] = self._answer("environment") or {}
        return variables

    def loaded_modules(self, names: Iterable[str]) -> tuple[str, ...]:
        """
        Return those of the modules that are loaded.
        """
        loaded = self._answer("loaded_modules") or ()
        return tuple(name for name in names if name in loaded)

    def pause(self) -> None:
        """
        Wait for nothing: all was over when it was recorded.
        """

    def _answer(self, question: str, argument: str | None = None) -> Any:
        self.unused.discard((question, argument))
        known = self._answers if argument is None else self._answers.get(question, {})
        key = question if argument is None else argument
        if key not in known:
            self.unanswered.add((question, argument))
        return known.get(key)

    def __getattr__(self, question: str) -> Any:
        if question not in _QUESTIONS:
            raise AttributeError(question)

        def ask(*argument: str) -> Any:
            answer = self._answer(question, *argument)
            return SILENT.get(question) if answer is None else answer

        return ask


def _typed(question: str, answer: Any) -> Any:
    """
    Return an answer as the host gave it.
    """
    asked = vars(HostIO)[question]
    hint = typing.get_type_hints(asked.fget if isinstance(asked, property) else asked)["return"]
    if question not in WITH_ARGUMENT:
        return None if answer is None else from_json_as(hint, answer, question)
    if not isinstance(answer, Mapping):
        raise ValueError(f"{question} should be an object of answers, and is {answer!r}")
    return {
        each: None if item is None else from_json_as(hint, item, f"{question}.{each}") for each, item in answer.items()
    }


SILENT: Mapping[str, Any] = {
    "uname": ("", ""),
    "python": ("", False),
    "main_module": MainModule(None, None),
    "other_threads": (),
    "is_frozen": False,
    "has_semaphores": True,
    "is_daemonic": False,
    "is_dataloader_worker": False,
    "is_accelerator_initialised": False,
}
"""
The answers of a host that does not say, where these are not ``None``.
"""
