"""A namespace's name, and the namespaces that Pulsar reserves for itself."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from counterpoise.names.errors import InvalidName

_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_BROKER_LOCAL = re.compile(r"[^:]+:\d+")

ENTITY_MAX = 255
"""The most characters in the name of a tenant, namespace or cluster.

File systems allow no more in a directory's name, for which it is used, too."""

SYSTEM_NAMESPACE_TEXT = "pulsar/system"


def check_entity(name: str, kind: str, text: str) -> None:
    """Raise `InvalidName` unless ``name``, a tenant, namespace or cluster, has only allowed
    characters.

    These are ``NamedEntity``'s: letters, digits, ``_``, ``-``, ``=``, ``:`` and ``.``. ``kind`` and
    ``text``, the whole name, are for the message. Pulsar accepts ``.`` and ``..`` here and fails
    later, because no metadata store has such a node.
    """
    if len(name) > ENTITY_MAX:
        raise InvalidName(text, f"the {kind} has {len(name)} characters, at most {ENTITY_MAX}")
    if not _ENTITY.fullmatch(name):
        raise InvalidName(
            text,
            f"the {kind} {name!r} must be letters, digits, '_', '-', '=', ':' or '.', at least one",
        )
    if name in (".", ".."):
        raise InvalidName(text, f"the {kind} must not be {name!r}")


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """A namespace's name, ``tenant/namespace``. Three-part names of Pulsar 1 are refused."""

    tenant: str
    local: str
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = f"{self.tenant}/{self.local}"
        check_entity(self.tenant, "tenant", text)
        check_entity(self.local, "namespace", text)
        object.__setattr__(self, "_text", text)

    @staticmethod
    def parse(text: str) -> "NamespaceName":
        """Parse ``tenant/namespace``; raises `InvalidName` for anything else."""
        if len(text) > 2 * ENTITY_MAX + 1:
            # Refused here, so that `_parse` does not cache it.
            raise InvalidName(text, f"two names of at most {ENTITY_MAX} characters are expected")
        return _parse(text)

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def is_heartbeat(self) -> bool:
        """Whether this is a broker's own health-check namespace, ``pulsar/<host>:<port>``."""
        return self.tenant == "pulsar" and _BROKER_LOCAL.fullmatch(self.local) is not None

    @property
    def is_sla_monitor(self) -> bool:
        """Whether this is a broker's SLA-monitoring namespace, ``sla-monitor/<host>:<port>``."""
        return self.tenant == "sla-monitor" and _BROKER_LOCAL.fullmatch(self.local) is not None

    @property
    def bound_broker(self) -> str | None:
        """The id of the only broker that may own this namespace's bundles, if it is a heartbeat or
        SLA-monitor namespace; otherwise None.
        """
        return self.local if self.is_heartbeat or self.is_sla_monitor else None


@lru_cache(maxsize=16384)
def _parse(text: str) -> NamespaceName:
    parts = text.split("/")
    if len(parts) != 2:
        raise InvalidName(text, "expected tenant/namespace")
    return NamespaceName(*parts)


SYSTEM_NAMESPACE = NamespaceName("pulsar", "system")

_NEVER_MOVED = re.compile(r"(?:pulsar/(?:[^/]+/)?|sla-monitor/[^/]+/)[^/:]+:\d+")


def bound_to_broker(namespace: str) -> bool:
    """Whether load shedding skips the bundles of this namespace, since one broker alone may own
    them.

    These are ``pulsar/<host>:<port>`` and the three-part ``pulsar/…/<host>:<port>`` and
    ``sla-monitor/…/<host>:<port>``, by the patterns of 4.0.7's
    ``LoadData.getBundleDataForLoadShedding``. As there, the two-part ``sla-monitor/<host>:<port>``
    and ``pulsar/system`` are not among them.
    """
    return _NEVER_MOVED.fullmatch(namespace) is not None


def is_left_in_place(namespace: str) -> bool:
    """Whether the balancer neither moves a namespace's bundles nor assigns them by a lookup.

    True for ``pulsar/system``, whose topics the load manager itself uses, and for brokers' own
    namespaces.
    """
    return namespace == SYSTEM_NAMESPACE_TEXT or bound_to_broker(namespace)
