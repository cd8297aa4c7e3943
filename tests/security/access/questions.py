"""Who may call what: every route of ours, asked by every kind of role, of any cluster.

The cluster that is asked has a tenant with an administrator, a namespace with a grant of each
kind, and two topics, one of them partitioned, with a grant of their own. A question that takes
something away is asked after all others, and the cluster is repaired after each; routes about
clusters are asked about one that nothing lives in.
"""

import http.client
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

from counterpoise.admin.access import AccessRule
from counterpoise.admin.app import all_routes
from tests.routes import NAMES, SHUTDOWN, filled
from tests.security.tokens import token
from tests.waiting import answer_within

CLUSTER, ELSEWHERE = "standalone", "elsewhere"
BROKER = "127.0.0.1:8080"
"""The id of the broker that answers, as it is recorded."""
_PORT = re.compile(r"127\.0\.0\.1:\d+")
ANSWERS_S = 10
"""A refusal comes at once: a route that is silent for longer does not refuse."""
READY_S = 60
"""For how long the set-up is tried: a Pulsar that has just begun may not see itself."""
WHOLE_S = 420
"""After which a cluster is given up."""
TENANT, NAMESPACE = "acme", "acme/ns"
TOPIC, PARTITIONED = "persistent/acme/ns/t", "persistent/acme/ns/p"
GRANTS = {
    "writer": ["produce"],
    "reader": ["consume"],
    "runner": ["functions"],
    "packer": ["packages"],
}
"""What is granted on the namespace; ``member`` may produce and consume on the topics."""
ROLES = ("anonymous", "stranger", "member", *GRANTS, "boss", "admin")
"""Weakest first: ``anonymous`` shows no token, ``boss`` administers the tenant, ``admin`` all."""

OURS = NAMES | {"tenant": TENANT, "namespace": "ns", "cluster": CLUSTER, "subscription": "s"}
AN_ENTRY = {"ledgerId": 1, "entryId": 1, "partitionIndex": -1}
BODIES: dict[str, object] = {
    "properties": {"k": "v"},
    "expireMessages": AN_ENTRY,
    "resetcursor": AN_ENTRY,
    "offload": AN_ENTRY,
    **dict.fromkeys(("offloadThreshold", "offloadThresholdInSeconds"), -1),
    "offloadDeletionLagMs": 1000,
    **dict.fromkeys(("messageTTL", "subscriptionExpirationTime", "compactionThreshold"), 86400),
    **dict.fromkeys(("maxProducersPerTopic", "maxProducers", "maxMessageSize"), 1000),
    **dict.fromkeys(("maxConsumersPerTopic", "maxConsumers", "maxConsumersPerSubscription"), 1000),
    **dict.fromkeys(("maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"), 1000),
    **dict.fromkeys(("maxSubscriptionsPerTopic", "maxTopicsPerNamespace"), 1000),
    **dict.fromkeys(("deduplication", "encryptionRequired", "schemaValidationEnforced"), False),
    "isAllowAutoUpdateSchema": True,
    "partitions": 3,
    "replicas": 20,
    **{
        f"{verb}PermissionsOnTopics": [
            {"topic": f"persistent://{NAMESPACE}/t", "role": "x", "actions": ["produce"]}
        ]
        for verb in ("grant", "revoke")
    },
}
"""By a path's last word, what Pulsar reads before it looks at who asks."""
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
SETTING_UP: tuple[tuple[str, str, object], ...] = (
    # A Pulsar that has just begun may not see its own cluster until there is another.
    *(
        ("PUT", f"clusters/{name}", {"serviceUrl": "http://127.0.0.1:1"})
        for name in (CLUSTER, ELSEWHERE)
    ),
    ("PUT", f"tenants/{TENANT}", {"adminRoles": ["boss"], "allowedClusters": [CLUSTER]}),
    ("POST", f"tenants/{TENANT}", {"adminRoles": ["boss"], "allowedClusters": [CLUSTER]}),
    ("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 1}}),
    *(
        ("POST", f"namespaces/{NAMESPACE}/permissions/{role}", actions)
        for role, actions in GRANTS.items()
    ),
    ("PUT", TOPIC, None),
    ("POST", f"{TOPIC}/permissions/member", ["produce", "consume"]),
    ("PUT", f"{PARTITIONED}/partitions", 2),
    ("POST", f"{PARTITIONED}/permissions/member", ["produce", "consume"]),
    ("PUT", f"{TOPIC}/subscription/s", None),
)

REFUSAL = "what refuses the stranger"
Verdicts = dict[str, str]
"""By role: ``401`` or ``403``, or ``-`` for one who was not refused; and by `REFUSAL` the words."""


@dataclass(frozen=True, slots=True)
class Question:
    """A route, with names filled in."""

    method: str
    template: str
    path: str
    rule: AccessRule

    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def asked(self) -> str:
        """The path, with what Pulsar needs in order to answer at all."""
        key = self.method == "DELETE" and self.template.endswith("{topic}/properties")
        return f"{self.path}?key=k" if key else self.path

    @property
    def body(self) -> object:
        """What is sent along."""
        last = self.template.rsplit("/", 1)[-1]
        return BODIES.get(last) if self.method in ("PUT", "POST") else None

    @property
    def takes_away(self) -> bool:
        """Whether a piece of the set-up may be gone afterwards."""
        last = self.template.rsplit("/", 1)[-1]
        deletes = self.method == "DELETE" and (last.startswith("{") or last == "partitions")
        return deletes or "/unsubscribe/" in self.template


def name_of(hole: str, template: str) -> str:
    """What a route is asked about."""
    if hole == "cluster" and "/clusters/" in template:
        return ELSEWHERE
    if hole == "topic" and "artition" in template:
        return "p"
    return OURS.get(hole, "x")


def questions() -> Iterator[Question]:
    """One for each route, in our order."""
    for route in all_routes():
        path = filled(route.template, partial(name_of, template=route.template))
        yield Question(route.method, route.template, path, route.access)


class Api:
    """A broker's admin API, by one connection that is kept."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=ANSWERS_S)

    def __call__(self, role: str, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Ask as a role, and give the status and what was said."""
        headers = {"Content-Type": "application/json"}
        if role != "anonymous":
            headers["Authorization"] = f"Bearer {token(role)}"
        data = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return HTTPStatus.GATEWAY_TIMEOUT, str(error)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def set_up(self) -> None:
        """Set the cluster up, or repair it."""
        if not answer_within(lambda: not self._build(), READY_S):
            raise SystemExit(f"the cluster cannot be set up: {self._build()}")

    def _build(self) -> str:
        """What was not built, and why; empty if everything stands."""
        for method, path, body in SETTING_UP:
            status, text = self("admin", method, f"/admin/v2/{path}", body)
            if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.CONFLICT:
                return f"{method} {path}: {status} {text}"
        return ""


def ask_everything(url: str) -> dict[str, Verdicts]:
    """What a cluster says to each role at each route; a line on stderr for each."""
    api, found, asked = Api(url), {}, list(questions())
    api.set_up()
    began = time.monotonic()
    for number, question in enumerate(sorted(asked, key=lambda each: each.takes_away), 1):
        said = {role: _ask(api, question, role) for role in ROLES}
        found[str(question)] = verdicts_of(said)
        seconds, codes = time.monotonic() - began, " ".join(str(code) for code, _ in said.values())
        sys.stderr.write(f"{number}/{len(asked)} {seconds:5.1f} s {question} {codes}\n")
        if seconds > WHOLE_S:
            raise SystemExit(f"not done after {WHOLE_S} s")
    api.close()
    return {str(question): found[str(question)] for question in asked}


def verdicts_of(said: Mapping[str, tuple[int, str]]) -> Verdicts:
    """What is kept of statuses and words."""
    code, why = said["stranger"]
    found = {role: str(code) if code in REFUSED else "-" for role, (code, _) in said.items()}
    return {**found, REFUSAL: _PORT.sub(BROKER, why).strip() if code in REFUSED else "-"}


def _ask(api: Api, question: Question, role: str) -> tuple[int, str]:
    if role == "admin" and question.template == SHUTDOWN:
        return 0, ""
    status, text = api(role, question.method, question.asked, question.body)
    if status in REFUSED:
        return status, str(json.loads(text)["reason"]) if text.startswith("{") else text
    if question.takes_away:
        api.set_up()
    return status, text
