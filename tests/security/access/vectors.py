"""What a real Pulsar 4.0.7 answered, and where ours is meant to answer otherwise."""

import csv
from pathlib import Path

from tests.security.access.questions import REFUSAL, ROLES, Verdicts

FILE = Path(__file__).with_name("pulsar-4.0.7.tsv")

_NS = "DELETE /admin/v2/namespaces/{tenant}/{namespace}"
_ANTI_AFFINITY = "namespaces/{cluster}/antiAffinity/{group}"
EXPLAINED: dict[str, str] = {
    **{
        f"{_NS}/{policy}": "Pulsar cannot take this policy back, and takes its name for a bundle's"
        for policy in (
            "deduplicationSnapshotInterval",
            "subscriptionAuthMode",
            "encryptionRequired",
            "offloadPolicies",
            "schemaCompatibilityStrategy",
            "schemaAutoUpdateCompatibilityStrategy",
            "isAllowAutoUpdateSchema",
            "schemaValidationEnforced",
            "replication",
            "allowedClusters",
        )
    },
    "DELETE /admin/v2/{domain}/{tenant}/{namespace}/{topic}/schemaValidationEnforced": (
        "not served by Pulsar, 405"
    ),
    **{
        f"GET /admin/v2/broker-stats/{word}": "not served by Pulsar, 404"
        for word in ("destinations", "throttling", "shedding")
    },
    **{
        f"GET /admin/v3/transactions/{what}": "as strict, in the words for super users; Pulsar "
        "asks nothing of those who name a coordinator"
        for what in ("coordinatorStats", "slowTransactions/{timeout}")
    },
    **{
        f"GET {base}/{_ANTI_AFFINITY}": (
            "with authorization Pulsar answers 500 to everybody, super users too: it looks for the "
            "policies of a namespace that the request does not name"
        )
        for base in ("/admin/v2", "/admin")
    },
}
"""Routes that ours refuses to others than Pulsar does, or in other words, and why."""

ASKED_BY_HANDLER = frozenset(
    f"POST /admin/v2/namespaces/{verb}PermissionsOnTopics" for verb in ("grant", "revoke")
)
"""Routes whose tenant stands in the body, so their rule says little (`test_every_route.py`)."""


def write(answers: dict[str, Verdicts]) -> None:
    """Keep what a Pulsar answered."""
    with FILE.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        lines.writerow(("route", *ROLES, REFUSAL))
        for route, each in answers.items():
            lines.writerow((route, *(each[column] for column in (*ROLES, REFUSAL))))


def read() -> dict[str, Verdicts]:
    """What was kept."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return {line.pop("route"): line for line in csv.DictReader(file, dialect="excel-tab")}


def differences(ours: dict[str, Verdicts], theirs: dict[str, Verdicts]) -> dict[str, str]:
    """By route, ``role: ours, theirs`` for each role that is answered otherwise."""
    return {
        route: "; ".join(lines)
        for route, each in ours.items()
        if route not in ASKED_BY_HANDLER
        and (
            lines := [
                f"{role}: {verdict}, Pulsar {theirs[route][role]}"
                for role, verdict in each.items()
                if verdict != theirs[route][role]
            ]
        )
    }
