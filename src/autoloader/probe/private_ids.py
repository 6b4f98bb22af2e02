"""
Numbered stand-ins for ids that tell one machine, device or container from all others.
"""

import re
from collections.abc import Iterable

_ID = re.compile(
    r"(?:(?<=pod)|(?<![0-9A-Fa-f]))(?:"
    r"(?P<container>[0-9a-f]{64})"
    r"|[0-9A-Fa-f]{8}(?P<mark>[-_]?)[0-9A-Fa-f]{4}(?P=mark)[0-9A-Fa-f]{4}(?P=mark)[0-9A-Fa-f]{4}(?P=mark)[0-9A-Fa-f]{12}"
    r")(?![0-9A-Fa-f])"
)
_SHORT_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{12,63}(?![0-9A-Za-z])")
_DEVICE = re.compile(r"(GPU-|MIG-)([0-9A-Fa-f-]+)")
_NO_DEVICE = "ffffffff"


class StandIns:
    """
    Replaces UUIDs and the 64 digits of containers by numbers of the same form, the same one by the same number.

    Args:
        texts: All texts that will be asked about, in an order that stays.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._numbers: dict[str, int] = {}
        self._containers: list[str] = []
        self._gpus: dict[str, str] = {}
        for text in texts:
            for found in _ID.finditer(text):
                digits = _digits(found[0])
                self._numbers.setdefault(digits, len(self._numbers) + 1)
                if found["container"]:
                    self._containers.append(digits)
                elif text[: found.start()].endswith("GPU-"):
                    self._gpus.setdefault(found[0], self._of(found))

    def __call__(self, text: str) -> str:
        """
        Replace the ids of a text, and the beginnings of containers' ids.
        """
        return _SHORT_ID.sub(self._of_short, _ID.sub(self._of, text)) if len(text) >= 12 else text

    def devices(self, value: str) -> str:
        """
        Replace the UUIDs in a list of devices, in which they may be cut short.
        """
        return ",".join(self._device(entry) for entry in value.split(","))

    def _device(self, entry: str) -> str:
        whole = self(entry)
        found = _DEVICE.fullmatch(entry.strip())
        if whole != entry or found is None:
            return whole
        begun = (stand_in for uuid, stand_in in self._gpus.items() if uuid.startswith(found[2]))
        return found[1] + next(begun, _NO_DEVICE)

    def _of(self, found: re.Match[str]) -> str:
        number = self._numbers[_digits(found[0])]
        if found["container"]:
            return f"{number:012x}".ljust(64, "0")
        digits = f"{number:08x}".ljust(32, "0")
        return found["mark"].join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _of_short(self, found: re.Match[str]) -> str:
        whole = next((each for each in self._containers if each.startswith(found[0])), None)
        return found[0] if whole is None else f"{self._numbers[whole]:012x}".ljust(len(found[0]), "0")


def _digits(found: str) -> str:
    return found.replace("-", "").replace("_", "")
