"""A tenant, a namespace with permissions, and questions about who may do what there."""

from random import Random
from typing import Any

from counterpoise.security.authorization import NAMESPACE_NEEDS, TOPIC_NEEDS

ROLES = ["alice", "bob", "alice-2", "svc-alice", "admin", "root", "proxy", "proxy-2"]
PATTERNS = [*ROLES, "alice*", "*alice", "*", "svc-*", "a*e", "unknown"]
ACTIONS = ["produce", "consume", "functions", "sources", "sinks", "packages"]
TOPICS = [
    "persistent://t/ns/a",
    "persistent://t/ns/p",
    "persistent://t/ns/p-partition-0",
    "non-persistent://t/ns/a",
]
SUBSCRIPTIONS = ["s", "alice-s", "bob", "", None]


def permits_case(rng: Random) -> dict[str, Any]:
    """One world and a dozen questions."""

    def some(values: list[str], most: int) -> list[str]:
        return sorted(rng.sample(values, rng.randint(0, min(most, len(values)))))

    def grants(most: int) -> dict[str, list[str]]:
        return {role: some(ACTIONS, 3) for role in some(PATTERNS, most)}

    policies = {
        "auth_policies": {
            "namespace_auth": grants(4),
            "destination_auth": {topic: grants(3) for topic in some(TOPICS, 3)},
            "subscription_auth_roles": {
                name: some(ROLES, 2) for name in some(["s", "alice-s", "bob"], 2)
            },
        },
        "subscription_auth_mode": rng.choice(["None", "None", "Prefix"]),
        "replication_clusters": ["c"],
    }
    return {
        "op": "permits",
        "tenant": {"adminRoles": some(["admin", "bob", "proxy"], 2), "allowedClusters": ["c"]},
        "policies": policies,
        "super_users": some(["root", "proxy", "alice"], 2),
        "proxies": some(["proxy", "proxy-2", "bob"], 2),
        "wildcards": rng.random() < 0.5,
        "lines": [_question(rng) for _ in range(12)],
    }


def _question(rng: Random) -> dict[str, Any]:
    topic = rng.choice([*TOPICS, None])
    operations = NAMESPACE_NEEDS if topic is None else TOPIC_NEEDS
    return {
        "role": rng.choice(ROLES),
        "original": rng.choice([None, None, None, "", *ROLES]),
        "topic": topic,
        "operation": rng.choice(sorted(operations)),
        "subscription": rng.choice(SUBSCRIPTIONS) if topic is not None else None,
    }
