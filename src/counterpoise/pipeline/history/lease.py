"""One writer to a history: whoever holds its lease.

On a file system of this machine the lease is a lock that the kernel lets go of with the process,
however it ends. Elsewhere it is an object that its holder renews; another may take it when it has
not been renewed for a while. Object stores have no lock, so who takes the lease waits and looks
whether it is still theirs: of two that took it at once, the later one has it.
"""

import asyncio
import contextlib
import fcntl
import json
import math
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from counterpoise.pipeline.history.faults import unwritable
from counterpoise.pipeline.history.store import Store

NAME = "lease"


class HistoryInUseError(RuntimeError):
    """Another balancer writes this history."""


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """How a lease in an object store is held."""

    lasts_s: float = 30.0
    """Without being renewed."""
    renew_every_s: float = 10.0
    settle_s: float = 2.0
    """How long a lease that was taken is watched before it counts."""
    wait_s: float = 0.0
    """How long to wait for another holder to let go."""


@contextlib.asynccontextmanager
async def lease(
    store: Store, clock_ms: Callable[[], int], lost: Callable[[], None], options: LeaseOptions
) -> AsyncIterator[None]:
    """Hold the history for ourselves; `lost` is called when another has taken it meanwhile.

    Raises `HistoryInUseError` when another has it, and keeps it.
    """
    if store.local is not None:
        async with _lock(store, store.local, options):
            yield
        return
    held = _Object(store, clock_ms, options)
    await held.take()
    renewing = asyncio.create_task(held.renew(lost))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await asyncio.to_thread(held.let_go)


def _in_use(store: Store, holder: str) -> HistoryInUseError:
    return HistoryInUseError(
        f"another balancer{holder} writes {store.address}: stop it, or name another --history"
    )


@contextlib.asynccontextmanager
async def _lock(store: Store, directory: Path, options: LeaseOptions) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.wait_s
    with _opened(store, directory) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if loop.time() >= deadline:
                    raise _in_use(store, "") from None
                await asyncio.sleep(0.1)
        yield


def _opened(store: Store, directory: Path) -> TextIO:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return (directory / NAME).open("w")
    except OSError as error:
        raise unwritable(store.where(NAME), error) from error


class _Object:
    def __init__(self, store: Store, clock_ms: Callable[[], int], options: LeaseOptions) -> None:
        self._store = store
        self._clock_ms = clock_ms
        self._options = options
        self._token = uuid.uuid4().hex
        self._holder = f"{socket.gethostname()}, process {os.getpid()}"

    async def take(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.wait_s
        while True:
            found = await asyncio.to_thread(self._read)
            if found is None or int(found["until_ms"]) <= self._clock_ms():
                await asyncio.to_thread(self._write)
                await asyncio.sleep(self._options.settle_s)
                found = await asyncio.to_thread(self._read)
                if found and found["token"] == self._token:
                    return
            if loop.time() >= deadline:
                raise self._kept(found)
            await asyncio.sleep(min(1.0, self._options.renew_every_s))

    def _kept(self, found: dict[str, Any] | None) -> HistoryInUseError:
        """The error that says who has it, and what helps where that one was killed."""
        if not found:
            return _in_use(self._store, "")
        left = max(0, math.ceil((int(found["until_ms"]) - self._clock_ms()) / 1000))
        error = _in_use(self._store, f" ({found['holder']})")
        return HistoryInUseError(
            f"{error}; if that one was killed, its lease ends {left} s from now, and "
            f"--wait-for-history {left + math.ceil(self._options.settle_s) + 1}s waits for it"
        )

    async def renew(self, lost: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._options.renew_every_s)
            found = await asyncio.to_thread(self._read)
            if found is None or found["token"] != self._token:
                lost()
                return
            await asyncio.to_thread(self._write)

    def let_go(self) -> None:
        found = self._read()
        if found and found["token"] == self._token:
            self._store.delete(NAME)

    def _read(self) -> dict[str, Any] | None:
        try:
            read: dict[str, Any] = self._store.read(NAME, lambda file: json.loads(file.read()))
        except FileNotFoundError:
            return None
        return read

    def _write(self) -> None:
        until = self._clock_ms() + round(self._options.lasts_s * 1000)
        said = {"token": self._token, "holder": self._holder, "until_ms": until}
        self._store.write(NAME, json.dumps(said).encode())
