"""One writer to a history: whoever holds its lease.

On a file system of this machine the lease is a lock that the kernel lets go of with the process,
however it ends.

Elsewhere there is no lock, and no clock that two machines share. Each who wants the history puts a
claim of its own beside the others', and renews it; nobody ever writes another's. It holds the
history when it looked *after* its claim was there and saw no other: of two at once, the one whose
claim came later sees the other's (object stores show a listing as it is now). Of those that see
each other all step back but one, which looks again. Whose
claim says the same for as long as a lease lasts, by the clock of whoever watches it, is dead. Its
holder knows that before: without a renewal that came back in time it writes nothing until it has
looked again, and nothing ever when somebody else was there.
"""

import asyncio
import contextlib
import fcntl
import json
import math
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from counterpoise.pipeline.history.reigns import DIRECTORY, TOKEN_DIGITS
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.takeover import begin, mend
from counterpoise.pipeline.tables.faults import HistoryFaultError, HistoryInUseError, unwritable

NAME = "lease"
CLAIMS = "claims"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """How a lease in an object store is held."""

    lasts_s: float = 30.0
    """Without being renewed, for whoever watches it."""
    holds_s: float = 20.0
    """Without being renewed, for whoever holds it: what it begins to write by then arrives in
    time."""
    renew_every_s: float = 10.0
    wait_s: float = 0.0
    """How long to wait for another holder, that is alive, to let go."""

    def after_an_outage(self) -> "LeaseOptions":
        """For whoever held it until then: what it sent last may arrive yet, as if renewed."""
        return replace(self, wait_s=max(self.wait_s, 2 * self.lasts_s))


@contextlib.asynccontextmanager
async def lease(
    store: Store,
    lost: Callable[[], None],
    options: LeaseOptions,
    clock: Clock = time.monotonic,
    *,
    repairs: bool = False,
) -> AsyncIterator[Store]:
    """Hold the history for ourselves; gives the store by which to write it meanwhile.

    With `repairs` the lease begins though the record of who had it cannot be read.

    That store refuses with `HistoryFaultError` once another has taken the history, which `lost` is
    called for, too. Raises `HistoryInUseError` when another has it, and keeps it.
    """
    if store.local is not None:
        async with _lock(store, store.local, options) as still_ours:
            held = store.guarded(still_ours)
            # It was copied from where names say who wrote them: so they do here.
            if repairs:
                await asyncio.to_thread(mend, held)
            token = uuid.uuid4().hex[:TOKEN_DIGITS] if held.names(DIRECTORY) else ""
            yield await asyncio.to_thread(begin, held, token, ())
        return
    claim = _Claim(store, options, clock)
    await claim.take()
    # When this fails our claim stays until it lapses: who comes next has to know of us, as our
    # record may be on its way.
    held = store.guarded(claim.expect)
    if repairs:
        await asyncio.to_thread(mend, held)
    held = await asyncio.to_thread(begin, held, claim.reign, claim.dead)
    renewing = asyncio.create_task(claim.keep(lost))
    try:
        yield held
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        with contextlib.suppress(OSError, HistoryFaultError):  # then it lapses by itself
            await asyncio.to_thread(claim.withdraw)


def _in_use(store: Store, holder: str) -> HistoryInUseError:
    return HistoryInUseError(
        f"another balancer{holder} writes {store.address}: stop it, or name another --history"
    )


@contextlib.asynccontextmanager
async def _lock(
    store: Store, directory: Path, options: LeaseOptions
) -> AsyncIterator[Callable[[], None]]:
    """Hold the lock of a directory; gives what raises once it is not that directory's any more."""
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
        mine = os.fstat(file.fileno())

        def expect() -> None:
            try:
                if os.path.samestat(mine, (directory / NAME).stat()):
                    return
            except OSError:
                pass  # it is said below, whatever it is
            raise HistoryFaultError(
                f"{store.address} was moved or removed, or {directory / NAME} in it, while a "
                "balancer wrote there: this one writes nothing any more; start it again on the "
                "history where that is now"
            )

        expect()
        yield expect


def _opened(store: Store, directory: Path) -> TextIO:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return (directory / NAME).open("w")
    except OSError as error:
        raise unwritable(store.where(NAME), error) from error


@dataclass(slots=True)
class _Other:
    """Somebody else's claim, watched."""

    said: bytes
    since: float
    """When it was seen first, or to be renewed last."""
    lasts_s: float
    holder: str
    renewed: bool = False
    """Whether it was seen to be renewed: its holder is alive."""


class _Claim:
    def __init__(self, store: Store, options: LeaseOptions, clock: Clock) -> None:
        self._store = store
        self._options = options
        self._clock = clock
        self._new_token()
        self._holder = f"{socket.gethostname()}, process {os.getpid()}"
        self._number = 0
        self._until = -math.inf
        """Until when we hold, by our clock."""
        self._lost = False
        self._others: dict[str, _Other] = {}
        self._one_at_a_time = threading.Lock()

    def _new_token(self) -> None:
        self._token = uuid.uuid4().hex
        self._name = f"{CLAIMS}/{self._token}.json"

    @property
    def reign(self) -> str:
        """What files are named by that are written while we hold it."""
        return self._token[:TOKEN_DIGITS]

    @property
    def dead(self) -> list[str]:
        """The same of those whose claims were there when we took it, and were dead."""
        return [name.rpartition("/")[2][:TOKEN_DIGITS] for name in self._others]

    async def take(self) -> None:
        """Hold it; raises `HistoryInUseError` when somebody who is alive keeps it."""
        deadline = self._clock() + self._options.wait_s
        while True:
            alive = await asyncio.to_thread(self._take)
            if alive is None:
                return
            renewed = [other for other in alive.values() if other.renewed]
            if renewed and self._clock() >= deadline:
                raise _in_use(self._store, f" ({renewed[0].holder})")
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        # Those who step back come again at different times.
        return min(1.0, self._options.renew_every_s / 2) * random.uniform(0.5, 1.5)

    def _take(self) -> Mapping[str, _Other] | None:
        """Try once; the claims of those who may be alive, None when it is ours."""
        if alive := self._alive():
            return alive
        began = self._clock()
        self._write()
        while (alive := self._alive()) or self._clock() >= began + self._options.holds_s:
            first = self._name < min(alive, default="")
            if not first or any(other.renewed for other in alive.values()):
                self.withdraw()
                # Who steps back may be taken for dead, and is to be known as another when it comes
                # again.
                self._new_token()
                return alive
            time.sleep(self._pause())
        self._until = began + self._options.holds_s
        for name in self._others:
            self._store.delete(name)
        return None

    async def keep(self, lost: Callable[[], None]) -> None:
        """Renew it again and again; `lost` is called when that is over."""
        pause = self._options.renew_every_s
        while not self._lost:
            await asyncio.sleep(pause)
            try:
                await asyncio.to_thread(self.renew)
                pause = self._options.renew_every_s
            except (OSError, HistoryFaultError):
                # The store cannot be reached: whoever writes is told so there.
                pause = self._options.renew_every_s / 10
        lost()

    def expect(self) -> None:
        """Raise `HistoryFaultError` unless it is ours now."""
        if not self._lost and self._clock() >= self._until:
            self.renew()
        if self._lost:
            raise HistoryFaultError(
                f"another balancer has taken {self._store.address} over while this one stood "
                "still: this one writes nothing there any more"
            )

    def renew(self) -> None:
        """Renew it; too late, only if nobody else has claimed it meanwhile."""
        with self._one_at_a_time:
            until, began = self._until, self._clock()
            if self._lost or not self._is_there() or (began >= until and self._names()):
                self._lost = True
                return
            self._write()
            if self._clock() >= until and self._names():
                self._lost = True
                return
            self._until = began + self._options.holds_s

    def withdraw(self) -> None:
        """Take our claim away."""
        self._store.delete(self._name)

    def _alive(self) -> dict[str, _Other]:
        """The others whose claims have not stayed the same for as long as they last."""
        found: dict[str, _Other] = {}
        for name in self._names():
            other = self._others.get(name)
            try:
                said: bytes = self._store.read(name, lambda file: file.read())
            except FileNotFoundError:
                continue
            except HistoryFaultError:
                # It was written while we read it, or cannot be read just now: perhaps alive.
                known = other or _Other(b"", 0.0, *_told(b"", self._options.lasts_s))
                found[name] = replace(known, since=self._clock())
                continue
            now = self._clock()
            if other is None or other.said != said:
                lasts_s, holder = _told(said, self._options.lasts_s)
                renewed = bool(other and other.said)
                other = _Other(said, now, lasts_s, holder, renewed=renewed)
            found[name] = other
        self._others, now = found, self._clock()
        return {name: other for name, other in found.items() if now - other.since < other.lasts_s}

    def _names(self) -> list[str]:
        """The others' claims."""
        names = self._store.names(CLAIMS)
        mine = f"{self._token}.json"
        return [f"{CLAIMS}/{name}" for name in names if name.endswith(".json") and name != mine]

    def _is_there(self) -> bool:
        return self._store.exists(self._name)

    def _write(self) -> None:
        self._number += 1
        lasts_s = self._options.lasts_s
        said = {"holder": self._holder, "renewals": self._number, "lasts_s": lasts_s}
        self._store.write(self._name, json.dumps(said).encode())


def _told(said: bytes, otherwise: float) -> tuple[float, str]:
    """How long a claim lasts, and whose it is."""
    try:
        read = json.loads(said)
        return float(read["lasts_s"]), str(read["holder"])
    except (ValueError, KeyError, TypeError):
        return otherwise, "unknown"
