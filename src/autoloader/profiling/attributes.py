"""
The attributes of an object, read without running code of its class.
"""

from types import MemberDescriptorType
from typing import Any


def attributes_of(value: Any) -> dict[str, Any]:
    """
    Return the attributes of an object, those in slots too, without running code of its class.
    """
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 (__dict__ may be a property of the user's)
        attributes = {}
    found = dict(attributes) if type(attributes) is dict else {}
    with_slots = (each for each in type(value).__mro__ if "__slots__" in vars(each))
    for name, member in (item for each in with_slots for item in vars(each).items()):
        if type(member) is MemberDescriptorType:
            try:
                found[name] = member.__get__(value)
            except AttributeError:
                continue
    return found
