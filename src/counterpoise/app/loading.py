"""When Python looks for cyclic garbage: not while it loads modules, seldom while brokers serve."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000


@contextmanager
def loading() -> Iterator[None]:
    """Look for no garbage meanwhile: modules are none, and looking takes a fifth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            # To the oldest of its generations: the next look would go through all of them as new.
            gc.freeze()
            gc.unfreeze()
        if collects:
            gc.enable()


def collect_seldom() -> None:
    """Look for cycles now, leave out of later searches what stays, and search seldom.

    A message makes a handful of tuples that no cycle holds; by default every few hundred of them
    set off a search.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
