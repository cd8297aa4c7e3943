"""The registered bookies: whether they accept writes, and their addresses."""

import asyncio
import enum
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from counterpoise.bookkeeper.proto.ledgers_pb2 import BookieServiceInfoFormat
from counterpoise.metadata.port import MetadataReader

_READ_ONLY_NODE: Final = "readonly"
_PROTOCOL: Final = "bookie-rpc"
_PORT_MAX: Final = 65535


class BookieState(enum.Enum):
    """Whether a bookie is registered, accepts writes, or is gone."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"
    GONE = "gone"
    """It has no session with the metadata store. What its disks have is not reachable."""


@dataclass(frozen=True, slots=True)
class RegisteredBookie:
    """A bookie with a metadata session. Port 0: its node does not say where it listens."""

    bookie: str
    state: BookieState
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BookieRegistry:
    """The bookies of a cluster at one moment."""

    registered: dict[str, RegisteredBookie]
    known: frozenset[str]
    """Bookies that were ever part of the cluster: each has a cookie, even one that is gone."""

    def state_of(self, bookie: str) -> BookieState:
        """The state of a bookie that a ledger names."""
        found = self.registered.get(bookie)
        return BookieState.GONE if found is None else found.state


async def read_registry(store: MetadataReader, root: str) -> BookieRegistry:
    """Read the bookies of the cluster whose ledgers are below ``root``."""
    available, read_only = f"{root}/available", f"{root}/available/{_READ_ONLY_NODE}"
    writable, reading, known = await asyncio.gather(
        *map(store.children, (available, read_only, f"{root}/cookies"))
    )
    # Read-only ones last, so that they count: a bookie that changes its state is in both places for
    # a moment.
    nodes = [
        *((available, each, BookieState.READ_WRITE) for each in writable),
        *((read_only, each, BookieState.READ_ONLY) for each in reading),
    ]
    nodes = [each for each in nodes if each[1] != _READ_ONLY_NODE]
    values = await asyncio.gather(*(store.get(f"{parent}/{each}") for parent, each, _ in nodes))
    registered = {
        bookie: RegisteredBookie(bookie, state, *address(bookie, found.value))
        for (_, bookie, state), found in zip(nodes, values, strict=True)
        if found is not None
    }
    return BookieRegistry(registered, frozenset(known))


def address(bookie: str, value: bytes) -> tuple[str, int]:
    """A bookie's host and port, from its node's value, or from its id where that is empty."""
    try:
        info = BookieServiceInfoFormat.FromString(value)
    except DecodeError:
        return "", 0
    for endpoint in info.endpoints:
        if endpoint.protocol == _PROTOCOL and 0 < endpoint.port <= _PORT_MAX:
            return endpoint.host, endpoint.port
    host, _, port = bookie.rpartition(":")
    legacy = not info.endpoints and port.isascii() and port.isdigit() and len(port) <= 5
    return (host, int(port)) if legacy and 0 < int(port) <= _PORT_MAX else ("", 0)
