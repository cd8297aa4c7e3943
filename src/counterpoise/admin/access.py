"""Who may call each route of the admin API, such as super users or a tenant's administrators.

The requirements are those of Pulsar 4.0.7, where each method of each resource makes the same check.
`counterpoise.security.authorization` knows which roles are administrators;
`counterpoise.admin.permission` asks it.
"""

from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final


class Audience(Enum):
    """The kinds of callers that a route may be restricted to."""

    ANYBODY = auto()
    """Every caller, authenticated or not."""
    METRICS = auto()
    """Every caller; authenticated ones only if ``authenticateMetricsEndpoint`` is set."""
    KNOWN = auto()
    """Every authenticated caller."""
    SUPER_USER = auto()
    BROKER = auto()
    """Super users; others are refused with Pulsar's message for a ``BrokerOperation``."""
    CLUSTER = auto()
    """Super users; others are refused with Pulsar's message for a ``ClusterOperation``."""
    CLUSTER_POLICY = auto()
    TENANTS = auto()
    """Super users; others are refused with Pulsar's message for a ``TenantOperation``."""
    TENANT_ITSELF = auto()
    """The administrators of the tenant in the path, refused in the same words as for `TENANTS`."""
    TENANT_ADMIN = auto()
    """The administrators of the tenant in the path."""
    TENANT = auto()
    """The tenant's administrators; others get Pulsar's message for a ``TenantOperation``."""
    NAMESPACE_POLICY = auto()
    """The tenant's administrators; others get Pulsar's message for a ``PolicyOperation``."""
    TOPIC_POLICY = auto()
    NAMESPACE = auto()
    """Roles that were granted a ``NamespaceOperation``."""
    TOPIC = auto()
    """Roles that were granted a ``TopicOperation``."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may call a route: the kind of caller, and the operation that a role must be granted."""

    audience: Audience
    operation: str = ""
    after: "AccessRule | None" = None
    """A rule that is checked first, so that a caller gets its message; None: no such rule."""


ANYBODY: Final = AccessRule(Audience.ANYBODY)
METRICS: Final = AccessRule(Audience.METRICS)
KNOWN: Final = AccessRule(Audience.KNOWN)
SUPER_USER: Final = AccessRule(Audience.SUPER_USER)
CLUSTER_POLICY: Final = AccessRule(Audience.CLUSTER_POLICY)
TENANT_ADMIN: Final = AccessRule(Audience.TENANT_ADMIN)
NAMESPACE_POLICY: Final = AccessRule(Audience.NAMESPACE_POLICY)
TOPIC_POLICY: Final = AccessRule(Audience.TOPIC_POLICY)

# Each makes a rule from the name of an operation of Pulsar's, such as ``GET_BUNDLE``.
broker: Final = partial(AccessRule, Audience.BROKER)
cluster: Final = partial(AccessRule, Audience.CLUSTER)
tenants: Final = partial(AccessRule, Audience.TENANTS)
tenant_itself: Final = partial(AccessRule, Audience.TENANT_ITSELF)
tenant: Final = partial(AccessRule, Audience.TENANT)
namespace: Final = partial(AccessRule, Audience.NAMESPACE)
topic: Final = partial(AccessRule, Audience.TOPIC)

LOOKUP: Final = topic("LOOKUP")
TENANT_ADMIN_AFTER_LOOKUP: Final = AccessRule(Audience.TENANT_ADMIN, after=LOOKUP)


def word_of(path: str) -> str:
    """The last part of a route's path that is no parameter (``messageTTL``); empty without one."""
    words = [each for each in path.split("/")[5:] if not each.startswith("{")]
    return words[-1] if words else ""
