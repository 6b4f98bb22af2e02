"""
What datasets hold, in a module that a child can import.
"""

import os
import threading
from collections.abc import Callable
from typing import Any


class Holder:
    """
    A dataset with the attributes that it is given.
    """

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def method(self, sample: Any) -> Any:
        return sample


class Compose:
    """
    Transforms one after the other, as torchvision's.
    """

    def __init__(self, transforms: list[Callable[[Any], Any]]) -> None:
        self.transforms = transforms


class Slotted:
    """
    Keeps its attribute in a slot.
    """

    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class WithoutLock:
    """
    Leaves its lock out of what is pickled.
    """

    def __init__(self, **attributes: Any) -> None:
        self.lock = threading.Lock()
        self.__dict__.update(attributes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}


class NoState:
    """
    Cannot say what it holds.
    """

    def __getstate__(self) -> dict[str, Any]:
        raise ValueError("no state today")


class NoReduce:
    """
    Cannot say how to make it again.
    """

    def __reduce__(self) -> Any:
        raise LookupError("no way back")


def fail_elsewhere(pid: int) -> None:
    """
    Raise in every process but one.
    """
    if os.getpid() != pid:
        raise RuntimeError("not in this process")


class FailsInChild:
    """
    Is pickled well, and raises where it is loaded.
    """

    def __reduce__(self) -> Any:
        return fail_elsewhere, (os.getpid(),)


class RefusesState:
    """
    Raises when it gets its attributes back.
    """

    def __init__(self) -> None:
        self.size = 3

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise OSError("no such device")


class EndsChild:
    """
    Ends the process in which it is loaded, without a word.
    """

    def __reduce__(self) -> Any:
        return os._exit, (7,)


class KeepsChildWaiting:
    """
    Never comes back from being loaded.
    """

    def __reduce__(self) -> Any:
        return wait_forever, ()


def wait_forever() -> None:
    """
    Wait for what does not come.
    """
    threading.Event().wait()


class SeesShape:
    """
    Asks in the child whether its array is what it was here, and raises what it found.
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __setstate__(self, state: dict[str, Any]) -> None:
        array = state["array"]
        raise LookupError(f"{type(array).__module__}.{type(array).__name__} {tuple(array.shape)} {array.dtype}")


class ChecksContents:
    """
    Refuses in the child an array whose contents are not what they were here.
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __setstate__(self, state: dict[str, Any]) -> None:
        if int(state["array"][-1]) != 7:
            raise ValueError("these are other contents")
        self.array = state["array"]
