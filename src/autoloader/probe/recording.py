"""
A host's answers in one JSON document, and the host that such a document replays.

The document holds, for each question of :class:`HostIO` that was asked, the answer; where the question takes an
argument, an object of answers by argument. A question that is not in it gets the answer of a host that does not say.
``synthetic`` is ``null`` in what a probe recorded; a document that was written by hand names its source there. ``path``
is the place whose storage was asked about, ``null`` or missing for the working directory.
"""

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..records import from_json_as, shortened, to_json
from .questions import HostIO, MainModule
from .redaction import BY_PATH, Redaction

SCHEMA = 1

WITH_ARGUMENT = (*sorted(BY_PATH), "launcher_affinity", "resource_limit", "sysctl_number", "sysctl_text")
"""
The questions that take one argument, a text.
"""

_QUESTIONS = tuple(name for name in vars(HostIO) if not name.startswith("_") and name != "pause")


class Recorder:
    """
    Passes each question on to a host, and keeps the answers.

    What is asked again gets the answer that is kept, so that a replay gives the same facts; after a pause it is asked
    anew.

    Args:
        io: The host.
    """

    def __init__(self, io: HostIO) -> None:
        self._io = io
        self._answers: dict[str, Any] = {}
        self._given: dict[tuple[str, ...], Any] = {}

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
        self._given.clear()
        self._io.pause()

    def _keep(self, question: str, answer: Any) -> Any:
        self._answers[question] = to_json(answer)
        return answer

    def __getattr__(self, question: str) -> Any:
        if question not in _QUESTIONS:
            raise AttributeError(question)
        return lambda *argument: self._ask(question, *argument)

    def _ask(self, question: str, *argument: str) -> Any:
        asked = (question, *argument)
        if asked not in self._given:
            self._given[asked] = getattr(self._io, question)(*argument)
        answer = self._given[asked]
        if question not in WITH_ARGUMENT:
            return self._keep(question, answer)
        self._answers.setdefault(question, {})[argument[0]] = to_json(answer)
        return answer

    def document(self, private: Mapping[str, str], path: str | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """
        Return all that was answered, and those of the names that are common words, which are replaced in homes only.

        Args:
            private: Names of users and of this host, and what stands in their place; see :class:`Redaction`.
            path: The place whose storage was asked about; ``None`` for the working directory.
        """
        redaction = Redaction(self._answers, private)
        answers = redaction.answers()
        place = None if path is None else redaction.path(path)
        return {"schema": SCHEMA, "synthetic": None, "path": place, "answers": answers}, redaction.common


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


class ReplayedHost:
    """
    A host that gives the answers of a document.

    Args:
        document: What :meth:`Recorder.document` returned, or what was written by hand in its place.

    Raises:
        ValueError: It is no such document; the text says what is wrong.
    """

    def __init__(self, document: Any) -> None:
        schema = document.get("schema") if isinstance(document, Mapping) else None
        if type(schema) is not int or schema != SCHEMA:
            raise ValueError(f"a recorded host should be an object with 'schema' {SCHEMA}")
        answers = document.get("answers")
        if not isinstance(answers, Mapping):
            raise ValueError("a recorded host should have 'answers', an object")
        unknown = sorted(set(answers) - set(_QUESTIONS))
        if unknown:
            raise ValueError(f"a recorded host has answers to {shortened(unknown[0])}, which no probe asks")
        self.path: str | None = from_json_as(str | None, document.get("path"), "path")
        """The place whose storage was asked about, ``None`` for the working directory."""
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
        typed = from_json_as(hint | None, answer, question)
        return _hexadecimal(typed) if question == "windows_processors" else typed
    if not isinstance(answer, Mapping):
        raise ValueError(f"{question} should be an object of answers, and is {shortened(answer)}")
    return {each: from_json_as(hint | None, item, f"{question}.{each}") for each, item in answer.items()}


def _hexadecimal(text: str | None) -> str | None:
    try:
        bytes.fromhex(text or "")
    except ValueError:
        raise ValueError(f"windows_processors should be bytes in hexadecimal, and is {shortened(text)}") from None
    return text


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
