"""A topic's complete name: ``persistent://tenant/namespace/local``."""

from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote_plus

from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName, check_entity

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"
PARTITION_SUFFIX = "-partition-"

LOCAL_NAME_MAX = 1024
"""The most bytes, in UTF-8, of the last part of a topic's name: brokers keep many in memory."""
_TEXT_MAX = LOCAL_NAME_MAX + 600
"""The most characters in a complete name: domain, tenant, namespace and the topic's own name."""

_DOMAINS = (PERSISTENT, NON_PERSISTENT)


def check_local_name(name: str, text: str | None = None) -> None:
    """Raise `InvalidName` unless ``name`` can be the last part of a topic's name; ``text`` is the
    whole name.

    As in Pulsar any text without ``/`` is allowed, since paths encode it. ``.`` and ``..`` are
    refused: encoding does not change them, and no metadata store has such a node.
    """
    text = name if text is None else text
    if not name.strip():
        raise InvalidName(text, "the topic's own name is missing")
    if "/" in name:
        raise InvalidName(text, "expected domain://tenant/namespace/topic, no '/' in the last part")
    if name in (".", ".."):
        raise InvalidName(text, "a topic cannot have this name")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidName(text, "a topic's name must be text in UTF-8") from None
    if size > LOCAL_NAME_MAX:
        raise InvalidName(text, f"the topic's own name has {size} bytes, at most {LOCAL_NAME_MAX}")


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """The name of a topic, or of one partition of a partitioned topic.

    `parse` is cached, and the text and `namespace_name` are stored, so all are cheap to read.
    """

    domain: str
    tenant: str
    namespace: str
    local_name: str
    namespace_name: NamespaceName = field(init=False, repr=False, compare=False)
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"
        if self.domain not in _DOMAINS:
            raise InvalidName(text, "the domain must be persistent or non-persistent")
        check_local_name(self.local_name, text)
        object.__setattr__(self, "namespace_name", NamespaceName(self.tenant, self.namespace))
        object.__setattr__(self, "_text", text)

    @staticmethod
    def parse(text: str) -> "TopicName":
        """Parse a complete name, ``tenant/namespace/topic``, or a bare ``topic``.

        Short forms are persistent; a bare one is in ``public/default``. Raises `InvalidName`, also
        where Pulsar is lenient by accident: domains in capitals, empty parts of a short form
        (``t//n/x``), and the four-part names of Pulsar 1.
        """
        if len(text) > _TEXT_MAX:
            # Refused here, so that `_parse` does not cache it.
            raise InvalidName(text, f"a topic's name has at most {_TEXT_MAX} characters")
        return _parse(text)

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def is_persistent(self) -> bool:
        """Whether messages of the topic are stored before they are acknowledged, by its domain."""
        return self.domain == PERSISTENT

    @property
    def partition_index(self) -> int:
        """The partition's index; -1 for a topic that is not a partition."""
        _, mark, index = self.local_name.rpartition(PARTITION_SUFFIX)
        if not mark or not (index.isascii() and index.isdigit()):
            return -1
        number = int(index)
        return number if str(number) == index and number <= 0x7FFFFFFF else -1

    @property
    def partitioned_name(self) -> "TopicName":
        """The partitioned topic that this is a partition of; itself if it is no partition."""
        if self.partition_index < 0:
            return self
        return self._with_local_name(self.local_name.rpartition(PARTITION_SUFFIX)[0])

    def partition(self, index: int) -> "TopicName":
        """The name of partition ``index`` of this topic; itself for -1 or if it is a partition."""
        if index < 0 or self.local_name.endswith(f"{PARTITION_SUFFIX}{index}"):
            return self
        return self._with_local_name(f"{self.local_name}{PARTITION_SUFFIX}{index}")

    @property
    def encoded_local_name(self) -> str:
        """The name's last part as Pulsar writes it into paths (``java.net.URLEncoder``'s rules)."""
        return url_encoded(self.local_name)

    @property
    def rest_path(self) -> str:
        """``persistent/tenant/namespace/topic`` for paths of the admin API, URL-encoded."""
        return f"{self.domain}/{self.namespace_name}/{self.encoded_local_name}"

    def _with_local_name(self, local_name: str) -> "TopicName":
        return TopicName(self.domain, self.tenant, self.namespace, local_name)


def url_encoded(name: str) -> str:
    """A name as Pulsar writes it into paths, encoded by ``java.net.URLEncoder``'s rules."""
    return quote_plus(name, safe="*").replace("~", "%7E")


@lru_cache(maxsize=65536)
def _parse(text: str) -> TopicName:
    domain, mark, rest = text.partition("://")
    if not mark:
        domain, rest = PERSISTENT, text
    parts = rest.split("/")
    if not mark and len(parts) == 1:
        parts = ["public", "default", *parts]
    if len(parts) != 3:
        raise InvalidName(
            text, "expected domain://tenant/namespace/topic, tenant/namespace/topic or topic"
        )
    check_entity(parts[0], "tenant", text)
    check_entity(parts[1], "namespace", text)
    return TopicName(domain, *parts)
