"""`dataclasses.dataclass`, in half the time for a class that is frozen and has slots.

The standard one compiles six methods for each such class, and a broker loads 250 of them: nearly
half of what the first test with a cluster waited for. Here ``__eq__``, ``__hash__`` and
``__repr__`` go over the names of the fields and are compiled once. They return what the standard
ones do, and a class that defines one of them keeps its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    # A type checker is to see the one that it knows.
    from dataclasses import dataclass

    from _typeshed import DataclassInstance
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`, with its options and its errors."""
        if cls is None and options == {"frozen": True, "slots": True}:
            return _frozen
        return dataclasses.dataclass(cls, **options)


def _frozen(cls: type) -> type:
    made: type = dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)
    fields = dataclasses.fields(made)
    compared = _tuple_of(each.name for each in fields if each.compare)
    key = _tuple_of(it.name for it in fields if (it.compare if it.hash is None else it.hash))

    def equal(self: object, other: object) -> object:
        if other.__class__ is self.__class__:
            return compared(self) == compared(other)
        return NotImplemented

    def hashed(self: object) -> int:
        return hash(key(self))

    for name, method in (("__eq__", equal), ("__hash__", hashed), ("__repr__", _shown)):
        if name not in vars(cls):
            setattr(made, name, method)
    return made


def _tuple_of(names: Iterable[str]) -> attrgetter[tuple[object, ...]]:
    """A getter of these attributes as a tuple, for which it needs two names at least.

    Without a field it is of one that is the same for all objects, and whose hash is in every run.
    """
    found = [*names] or ["__slots__"]
    return attrgetter(*found, *found[: len(found) == 1])


@recursive_repr()
def _shown(self: DataclassInstance) -> str:
    shown = (each.name for each in dataclasses.fields(self) if each.repr)
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({inside})"
