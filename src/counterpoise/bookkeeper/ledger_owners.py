"""The owner of a ledger, from its custom metadata (``LedgerMetadataUtils``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from counterpoise.bookkeeper.managed_ledgers import topic_of

PULSAR: Final = "pulsar"
MESSAGES: Final = "messages"
CURSOR: Final = "cursor"
SCHEMA: Final = "schema"
COMPACTED: Final = "compacted-ledger"
DELAYED_INDEX: Final = "delayed-index-bucket"
NO_APPLICATION: Final = ""
"""The application of metadata that names none, written by Pulsar before 2.3, BookKeeper's tools or
other applications."""


@dataclass(frozen=True, slots=True)
class LedgerOwner:
    """Which topic or cursor a ledger belongs to, according to its custom metadata."""

    application: str
    kind: str
    """`MESSAGES`, `CURSOR`, or the component as Pulsar calls it."""
    topic: str
    cursor: str
    managed_ledger: str
    """The name of the managed ledger whose node refers to the ledger, for messages and cursors."""


def ledger_owner(custom: Mapping[str, bytes]) -> LedgerOwner:
    """Parse a ledger's custom metadata to the topic or cursor that it belongs to."""
    texts = {key: value.decode("utf-8", "replace") for key, value in custom.items()}
    application = texts.get("application", NO_APPLICATION)
    name = texts.get("pulsar/managed-ledger", "")
    cursor = texts.get("pulsar/cursor", "")
    kind = texts.get("component", "")
    topic = topic_of(name) if name else ""
    if kind == "managed-ledger":
        kind = CURSOR if cursor else MESSAGES
    elif kind == SCHEMA:
        topic = schema_topic(texts.get("pulsar/schemaId", ""))
    elif kind == COMPACTED:
        topic = texts.get("pulsar/compactedTopic", "")
    elif kind == DELAYED_INDEX:
        topic = texts.get("pulsar/delayedIndexTopic", "")
        cursor = texts.get("pulsar/delayedIndexCursor", "")
    return LedgerOwner(application, kind, topic, unquote_plus(cursor), name)


def schema_topic(schema: str) -> str:
    """The topic's full name for a schema's id ``tenant/namespace/topic``."""
    return f"persistent://{schema}" if schema.count("/") >= 2 else schema


def namespace_of(topic: str) -> str:
    """``tenant/namespace`` of a topic; empty if the text is no topic."""
    _, mark, rest = topic.partition("://")
    parts = rest.split("/")
    return "/".join(parts[:2]) if mark and len(parts) >= 3 else ""
