"""The nodes of managed ledgers, one for each topic: the ledgers that hold its messages."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote_plus

from google.protobuf.message import DecodeError, Message

from counterpoise.bookkeeper.compression import unpack
from counterpoise.bookkeeper.errors import NotThisCluster, UnreadableNode
from counterpoise.bookkeeper.proto import managed_pb2 as pb
from counterpoise.metadata.port import MetadataReader
from counterpoise.names.position import Position
from counterpoise.names.topic import PERSISTENT, TopicName

ROOT: Final = "/managed-ledgers"
_COMPRESSED: Final = b"\x47\x78"
_SIZE: Final = 4
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class ListedLedger:
    """A ledger in the list of a managed ledger.

    Entries, bytes and the time of closing are 0 for the one being written, as in Pulsar.
    """

    ledger: int
    entries: int
    size: int
    closed_ms: int
    offloaded: bool
    """Whether long-term storage has all of it."""
    deleted: bool
    """Whether it is offloaded and deleted from BookKeeper."""
    offloading: bool = False
    """Whether offloading has begun: long-term storage has all of it, a part, or the remains of a
    failed attempt."""


@dataclass(frozen=True, slots=True)
class ManagedLedger:
    """A topic's managed ledger as its metadata node describes it."""

    name: str
    """The path of its node below `ROOT`: ``tenant/namespace/persistent/topic``, the topic
    URL-encoded."""
    ledgers: tuple[ListedLedger, ...]
    terminated: Position | None
    """The last position of a topic that takes no more messages."""
    properties: tuple[tuple[str, str], ...] = ()
    """The topic's properties, which users set."""


def managed_ledger_name(topic: TopicName) -> str:
    """The name of a topic's managed ledger: ``tenant/namespace/persistent/topic``."""
    return f"{topic.namespace_name}/{topic.domain}/{topic.encoded_local_name}"


def topic_of(name: str) -> str:
    """The topic of a managed ledger; the name itself if it is no topic's."""
    tenant, namespace, *rest = [*name.split("/", 3), "", ""][:4]
    if rest[0] != PERSISTENT or not rest[1]:
        return name
    return f"{PERSISTENT}://{tenant}/{namespace}/{unquote_plus(rest[1])}"


async def read_managed_ledger(store: MetadataReader, name: str) -> ManagedLedger | None:
    """The managed ledger of this name, None if there is none; raises `UnreadableNode`."""
    path = f"{ROOT}/{name}"
    node = await store.get(path)
    return None if node is None else parse_managed_ledger(name, node.value)


def parse_managed_ledger(name: str, value: bytes) -> ManagedLedger:
    """Parse the value of a managed ledger's node; raises `UnreadableNode`."""
    found = parse_node(pb.ManagedLedgerInfo, f"{ROOT}/{name}", value)
    end = found.terminatedPosition
    return ManagedLedger(
        name,
        tuple(
            ListedLedger(
                each.ledgerId,
                each.entries,
                each.size,
                each.timestamp,
                each.offloadContext.complete,
                each.offloadContext.bookkeeperDeleted,
                each.HasField("offloadContext"),
            )
            for each in found.ledgerInfo
        ),
        Position(end.ledgerId, end.entryId) if found.HasField("terminatedPosition") else None,
        tuple((each.key, each.value) for each in found.properties),
    )


def with_ledgers(name: str, value: bytes, ledgers: Sequence[ListedLedger]) -> bytes:
    """The value of a managed ledger's node, with another list of ledgers; other fields stay.

    Ledgers that stay listed keep their other fields. Raises `UnreadableNode`.
    """
    found = parse_node(pb.ManagedLedgerInfo, f"{ROOT}/{name}", value)
    former = {each.ledgerId: each for each in found.ledgerInfo}
    made = pb.ManagedLedgerInfo()
    for each in ledgers:
        info = made.ledgerInfo.add(ledgerId=each.ledger)
        if each.ledger in former:
            info.CopyFrom(former[each.ledger])
        info.timestamp = each.closed_ms
        if each.closed_ms:
            info.entries, info.size = each.entries, each.size
    del found.ledgerInfo[:]
    found.MergeFrom(made)
    return found.SerializeToString()


def with_topic(
    name: str, value: bytes, properties: Mapping[str, str], terminated: Position | None
) -> bytes:
    """The value of a managed ledger's node, with other topic properties and position of
    termination.
    """
    found = parse_node(pb.ManagedLedgerInfo, f"{ROOT}/{name}", value)
    del found.properties[:]
    for key, text in properties.items():
        found.properties.add(key=key, value=text)
    found.ClearField("terminatedPosition")
    if terminated is not None:
        found.terminatedPosition.ledgerId = terminated.ledger_id
        found.terminatedPosition.entryId = terminated.entry_id
    return found.SerializeToString()


def parse_node(kind: type[M], path: str, value: bytes) -> M:
    """Parse a node's protobuf message, which Pulsar may have compressed; raises `UnreadableNode`.

    A compressed value is magic 0x4778, header size, header, bytes. Bytes that only begin with the
    magic are parsed as they are, as in Pulsar.
    """
    try:
        return parsed(kind, _unpacked(value))
    except (DecodeError, ValueError) as error:
        try:
            return parsed(kind, value)
        except (DecodeError, ValueError):
            what = kind.DESCRIPTOR.name
            raise UnreadableNode(path, f"its {len(value)} bytes are no {what}: {error}") from None


def parsed(kind: type[M], value: bytes) -> M:
    """Parse a protobuf message with all required fields; raises ValueError or `DecodeError`."""
    found = kind.FromString(value)
    if not found.IsInitialized():
        raise ValueError("a field that each has is missing")
    return found


def _unpacked(value: bytes) -> bytes:
    if not value.startswith(_COMPRESSED):
        return value
    begin = len(_COMPRESSED) + _SIZE
    size = int.from_bytes(value[len(_COMPRESSED) : begin], "big", signed=True)
    if not 0 <= size <= len(value) - begin:
        raise ValueError(f"a header of {size} bytes in {len(value)}")
    header = parsed(pb.CompressedHeader, value[begin : begin + size])
    kind = pb.ZnodeCompression.Name(header.compressionType)
    return unpack(kind, value[begin + size :], header.uncompressedSize)


async def managed_ledger_names(store: MetadataReader) -> AsyncIterator[list[str]]:
    """The names of all managed ledgers, those of one namespace at a time.

    Names of Pulsar 1, with a cluster between tenant and namespace, are found as well.
    """
    for tenant in await store.children(ROOT):
        async for names in _names(store, tenant, 3):
            yield names


async def _names(store: MetadataReader, path: str, depth: int) -> AsyncIterator[list[str]]:
    children = await store.children(f"{ROOT}/{path}")
    if path.rpartition("/")[2] == PERSISTENT and path.count("/") >= 2:
        if children:
            yield [f"{path}/{name}" for name in children]
    elif depth:
        for name in children:
            async for names in _names(store, f"{path}/{name}", depth - 1):
                yield names


async def check_managed_ledgers(store: MetadataReader) -> None:
    """Raise `NotThisCluster` unless this store has the topics of a Pulsar cluster."""
    if not await store.children(ROOT):
        raise NotThisCluster(
            f"the metadata store has no {ROOT}: give the address and the chroot that brokers have "
            "in metadataStoreUrl"
        )
