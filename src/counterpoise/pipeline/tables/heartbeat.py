"""Shows which writer of a history is alive: a small file that the writer renews.

It only prevents that a second writer is started by mistake. Delta prevents concurrent writes: the
latest writer has a higher epoch (`history.py`), and commits of earlier writers are refused.
"""

import asyncio
import contextlib
import json
import os
import socket
import threading
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import psutil

from counterpoise.names.callbacks import Notify
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables.faults import (
    HistoryFaultError,
    HistoryInUseError,
    SupersededError,
)
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import delete_plain, read_plain, write_plain
from counterpoise.pipeline.tables.probe import expect_conditional_writes

NAME = "writer"


@dataclass(frozen=True, slots=True)
class HeartbeatOptions:
    """How often a history's writer renews its heartbeat, and how long a heartbeat is valid."""

    lasts_s: float = 30.0
    """How long a heartbeat is valid that is not renewed."""
    renew_every_s: float = 10.0
    wait_s: float = 0.0
    """How long to wait for another running writer to end."""

    def after_an_outage(self) -> "HeartbeatOptions":
        """The options after an outage, when this writer's own heartbeat may still be there."""
        return replace(self, wait_s=max(self.wait_s, 2 * self.lasts_s))


AT_ONCE: Final = HeartbeatOptions()
"""The options by which a running writer is not waited for."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The content of the file by which a history's writer shows that it is alive."""

    writer: str
    """A name that no other writer has."""
    host: str
    machine: str
    """The host and its PID namespace, in which `process` is unique: a container has its own."""
    process: int
    started: float
    """When the process began, in seconds since 1970."""
    at_ms: int
    """When it was last renewed, by the writer's clock."""
    lasts_s: float

    @property
    def is_of_a_dead_process(self) -> bool:
        """Whether its process ran on this machine and has ended."""
        if self.machine != _machine():
            return False
        try:
            return psutil.Process(self.process).create_time() != self.started
        except psutil.Error:
            return True

    def is_old(self, now_ms: int) -> bool:
        """Whether it was not renewed in time; `now_ms` is by the clock that stamped it."""
        return now_ms - self.at_ms > self.lasts_s * 1000


@contextlib.asynccontextmanager
async def writing(
    location: Location, options: HeartbeatOptions = AT_ONCE, lost: Notify = lambda: None
) -> AsyncIterator[TablesWriter]:
    """Be the only writer of a history during the block; `lost` is called if another takes it over.

    Raises `HistoryInUseError` while another writer is alive, and `HistoryFaultError`.
    """
    mine = _Heart(location, options)
    await mine.wait_for_others()
    await asyncio.to_thread(expect_conditional_writes, location)
    await asyncio.to_thread(mine.beat)
    try:
        try:
            writer = await asyncio.to_thread(take_over, location)
        except SupersededError:
            raise _in_use(location, None) from None
        renewing = asyncio.create_task(mine.keep(writer, lost))
        try:
            yield writer
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
    finally:
        with contextlib.suppress(HistoryFaultError):  # a heartbeat that stays grows old by itself
            await asyncio.to_thread(mine.withdraw)


class _Heart:
    def __init__(self, location: Location, options: HeartbeatOptions) -> None:
        self._location = location
        self._options = options
        self._writer = uuid.uuid4().hex
        self._started = psutil.Process().create_time()
        self._writing = threading.Lock()
        self._is_withdrawn = False

    async def wait_for_others(self) -> None:
        """Wait until no other process writes the history; raises `HistoryInUseError`."""
        loop = asyncio.get_running_loop()
        began, seen, since = loop.time(), await self._read(), loop.time()
        while seen is not None and not seen.is_of_a_dead_process:
            here = seen.machine == _machine()
            # By the times before it is read: this process may have been suspended at any point.
            looked, now_ms = loop.time(), wall_clock_ms()
            again = await self._read()
            is_old = seen.is_old(now_ms) if here else looked - since >= seen.lasts_s
            if again == seen and is_old:
                return
            renewed = again is not None and again != seen
            if (here or renewed) and loop.time() - began >= self._options.wait_s:
                raise _in_use(self._location, seen)
            if again != seen:
                seen, since = again, loop.time()
            await asyncio.sleep(min(0.5, self._options.renew_every_s / 4))

    def beat(self) -> None:
        """Renew the heartbeat."""
        made = Heartbeat(
            self._writer,
            socket.gethostname(),
            _machine(),
            os.getpid(),
            self._started,
            wall_clock_ms(),
            self._options.lasts_s,
        )
        # Without the lock, a thread that still renews it could write it again after `withdraw`.
        with self._writing:
            if not self._is_withdrawn:
                write_plain(self._location, NAME, json.dumps(asdict(made)).encode())

    async def keep(self, writer: TablesWriter, lost: Notify) -> None:
        """Renew the heartbeat until another writer takes the history over, then call `lost`."""
        pause_s = self._options.renew_every_s
        while True:
            await asyncio.sleep(pause_s)
            try:
                if self._is_anothers(await self._read()):
                    # An earlier writer may have written it late, after it had been suspended.
                    await asyncio.to_thread(writer.expect_held)
                await asyncio.to_thread(self.beat)
                pause_s = self._options.renew_every_s
            except SupersededError:
                lost()
                return
            except HistoryFaultError:
                # The store cannot be reached: the next commit reports it.
                pause_s = self._options.renew_every_s / 10

    def withdraw(self) -> None:
        """Remove the heartbeat, unless another writer has replaced it."""
        with self._writing:
            self._is_withdrawn = True
            if not self._is_anothers(_parsed(read_plain(self._location, NAME))):
                delete_plain(self._location, NAME)

    def _is_anothers(self, found: Heartbeat | None) -> bool:
        return found is not None and found.writer != self._writer

    async def _read(self) -> Heartbeat | None:
        return _parsed(await asyncio.to_thread(read_plain, self._location, NAME))


def _parsed(data: bytes | None) -> Heartbeat | None:
    """Parse a heartbeat; None if it is unreadable, since then it keeps no writer from starting."""
    try:
        return Heartbeat(**json.loads(data)) if data else None
    except (ValueError, TypeError):
        return None


def _machine() -> str:
    try:
        table = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        table = ""
    return f"{socket.gethostname()} {table}".strip()


def _in_use(location: Location, other: Heartbeat | None) -> HistoryInUseError:
    holder = f" ({other.host}, process {other.process})" if other is not None else ""
    return HistoryInUseError(
        f"another balancer{holder} writes {location.address}: stop it, or name another --history"
    )
