"""Many items at once."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Protocol, TypeVar

K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)


class _Table(Protocol[K_contra, V_co]):
    """What ``table[key]`` can be asked of."""

    def __getitem__(self, key: K_contra, /) -> V_co: ...


def lookup_many(table: _Table[K_contra, V_co], keys: Sequence[K_contra]) -> tuple[V_co, ...]:
    """``table[key]`` for each key; raises KeyError (IndexError) for one that is not there.

    One C call for all of them, in half the time of a loop: whoever places bundles looks up a
    thousand brokers for each.
    """
    if len(keys) > 1:
        taken: tuple[Any, ...] = itemgetter(*keys)(table)
        return taken
    return (table[keys[0]],) if keys else ()
