"""Connections that say what is wrong, many at a time, until enough has been said."""

import asyncio
import contextlib
import random
import struct
import time
from dataclasses import dataclass

from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.attack.wire.mutations import frame, mutated, untouched
from tests.attack.wire.sessions import READY, connect, opening

CONNECTIONS = 8
BURST = 25
"""Frames that are written before the attacker looks whether it is still connected."""
BURSTS = 40
ANSWERED_WITHIN_S = 5.0


@dataclass(slots=True)
class Tally:
    """What the attackers have done."""

    frames: int = 0
    connections: int = 0
    closed_by_broker: int = 0


class Attack:
    """Sends ``frames`` frames, or as many as it can in ``seconds``."""

    def __init__(self, service_url: str, *, frames: int, seconds: float, seed: int) -> None:
        host, port = service_url.removeprefix("pulsar://").rsplit(":", 1)
        self._address = host, int(port)
        self._frames = frames
        self._ends = time.monotonic() + seconds
        self._seed = seed
        self.tally = Tally()

    async def run(self) -> Tally:
        """Return when it is over."""
        await asyncio.gather(*(self._attacker(number) for number in range(CONNECTIONS)))
        return self.tally

    @property
    def _over(self) -> bool:
        return self.tally.frames >= self._frames or time.monotonic() > self._ends

    async def _attacker(self, number: int) -> None:
        rng = random.Random(f"{self._seed}-{number}")
        while not self._over:
            try:
                await self._session(rng, f"{number}-{rng.getrandbits(40):x}")
            except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
                self.tally.closed_by_broker += 1

    async def _session(self, rng: random.Random, who: str) -> None:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            reader, writer = await asyncio.open_connection(*self._address)
        self.tally.connections += 1
        try:
            await self._open(rng, who, reader, writer)
            discarding = asyncio.ensure_future(_discard(reader))
            try:
                for _ in range(BURSTS):
                    if self._over or discarding.done():
                        break
                    await self._burst(rng, writer)
            finally:
                discarding.cancel()
                await asyncio.gather(discarding, return_exceptions=True)
        finally:
            # Half of them leave without a word.
            if rng.random() < 0.5:
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(ConnectionError, OSError):
                await writer.wait_closed()

    async def _open(
        self,
        rng: random.Random,
        who: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        said = [connect()]
        if rng.random() < 0.97:
            said += opening(rng, who)
            writer.write(frame(said[0].SerializeToString()))
            await _until(reader, (BaseCommand.CONNECTED,), 1)
            writer.writelines(frame(each.SerializeToString()) for each in said[1:])
            with contextlib.suppress(TimeoutError):
                await _until(reader, READY, len(said) - 1)
        else:
            # A client that does not wait for answers, or does not even begin in order.
            rng.shuffle(said)
            writer.writelines(frame(each.SerializeToString()) for each in said)
        self.tally.frames += len(said)

    async def _burst(self, rng: random.Random, writer: asyncio.StreamWriter) -> None:
        frames = [mutated(rng) if rng.random() < 0.7 else untouched(rng) for _ in range(BURST)]
        writer.write(b"".join(frames))
        self.tally.frames += len(frames)
        async with asyncio.timeout(ANSWERED_WITHIN_S * 4):
            await writer.drain()
        await asyncio.sleep(0)


async def _until(reader: asyncio.StreamReader, kinds: tuple[int, ...], count: int) -> None:
    """Read until so many of these have come."""
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        while count:
            total, size = struct.unpack(">II", await reader.readexactly(8))
            rest = await reader.readexactly(total - 4)
            count -= BaseCommand.FromString(rest[:size]).type in kinds


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass
