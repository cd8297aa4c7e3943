"""Event loops that fail a test which waits for what can never happen, instead of standing still."""

import asyncio
import selectors
import threading
from collections.abc import Callable

import pytest

from tests.waiting import WITHIN_S


class WaitsForever(AssertionError):
    """No timer is set, and no thread or socket can wake the loop: the test would never end."""


class LastResort:
    """Knows whether anything but a timer can still wake the loop that has this selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._others = {*threading.enumerate()}

    @property
    def silent_s(self) -> float:
        """How long to wait before the test fails: not at all if nothing can wake the loop."""
        # The loop wakes itself by one socket; any other, and any new thread, may bring something.
        sockets, threads = len(self._selector.get_map()), {*threading.enumerate()}
        return WITHIN_S if sockets > 1 or threads - self._others else 0.0


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self._last_resort = LastResort(self)

    def select(self, timeout: float | None = None):  # type: ignore[no-untyped-def]
        if timeout is not None:
            return super().select(timeout)
        found = super().select(self._last_resort.silent_s)
        if not found:
            raise WaitsForever("nothing is left to happen, and the test still waits")
        return found


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """For a room's ``conftest.py``: its tests fail as soon as they wait for what never comes."""
    return {"noticing": lambda: asyncio.SelectorEventLoop(_Selector())}
