"""Who may call what: every route of ours, asked by every kind of role, of any cluster.

The town that is asked about has a tenant with an administrator, a namespace with a grant of each
kind, and a topic with a grant of its own. A question may change something where the role may; the
town is put right after that.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from counterpoise.admin.app import all_routes
from tests.security.tokens import token

CLUSTER = "standalone"
ANSWERS_S = 10
TENANT, NAMESPACE, TOPIC = "acme", "acme/ns", "persistent/acme/ns/t"
GRANTS = {
    "writer": ["produce"],
    "reader": ["consume"],
    "runner": ["functions"],
    "packer": ["packages"],
}
"""What is granted on the namespace; ``guest`` may produce and consume on the one topic."""
ROLES = ("nobody", "stranger", "guest", *GRANTS, "boss", "admin")
"""Weakest first: ``nobody`` shows no token, ``boss`` administers the tenant, ``admin`` all."""

NAMES = {
    "tenant": TENANT,
    "namespace": "ns",
    "topic": "t",
    "domain": "persistent",
    "kind": "topic",
    "bundle": "0x00000000_0xffffffff",
    "cluster": CLUSTER,
    "subscription": "s",
    "messagePosition": "1",
    "ledgerId": "1",
    "entryId": "1",
    "timestamp": "1",
    "expireTimeInSeconds": "1",
    "count": "1",
    "version": "1",
}
SHUTDOWN = "/admin/v2/brokers/shutdown"
SETTING_UP: tuple[tuple[str, str, object], ...] = (
    # A Pulsar that has just begun may not see its own cluster until there is another.
    *(
        ("PUT", f"clusters/{name}", {"serviceUrl": "http://127.0.0.1:1"})
        for name in (CLUSTER, "elsewhere")
    ),
    ("PUT", f"tenants/{TENANT}", {"adminRoles": ["boss"], "allowedClusters": [CLUSTER]}),
    ("POST", f"tenants/{TENANT}", {"adminRoles": ["boss"], "allowedClusters": [CLUSTER]}),
    ("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 1}}),
    *(
        ("POST", f"namespaces/{NAMESPACE}/permissions/{role}", actions)
        for role, actions in GRANTS.items()
    ),
    ("PUT", TOPIC, None),
    ("POST", f"{TOPIC}/permissions/guest", ["produce", "consume"]),
    ("PUT", f"{TOPIC}/subscription/s", None),
)

Verdicts = dict[str, str]
"""By role: ``401`` or ``403``, or ``-`` for one who was not refused."""


@dataclass(frozen=True, slots=True)
class Question:
    """A route, with names filled in."""

    method: str
    template: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


def questions() -> Iterator[Question]:
    """One for each route, in our order."""
    for route in all_routes():
        words = route.template.split("/")
        filled = [NAMES.get(w[1:-1], "x") if w.startswith("{") else w for w in words]
        yield Question(route.method, route.template, "/".join(filled))


class Api:
    """A broker's admin API, by one connection that is kept."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=ANSWERS_S)

    def __call__(self, role: str, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Ask as a role, and give the status and what was said."""
        headers = {"Content-Type": "application/json"}
        if role != "nobody":
            headers["Authorization"] = f"Bearer {token(role)}"
        data = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read().decode()
        except (TimeoutError, http.client.HTTPException) as error:
            # Whoever may not is told so at once.
            self._connection.close()
            return HTTPStatus.GATEWAY_TIMEOUT, str(error)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def set_up(self) -> None:
        """Build the town, or put it right."""
        for method, path, body in SETTING_UP:
            status, told = self("admin", method, f"/admin/v2/{path}", body)
            if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.CONFLICT:
                _, seen = self("admin", "GET", "/admin/v2/clusters")
                raise RuntimeError(f"{method} {path}: {status} {told}, clusters: {seen}")


def ask_everything(url: str) -> dict[str, Verdicts]:
    """What a cluster says to each role at each route."""
    api, found = Api(url), {}
    api.set_up()
    for question in questions():
        verdicts = {}
        for role in ROLES:
            if role == "admin" and question.template == SHUTDOWN:
                verdicts[role] = "-"
                continue
            status, _ = api(role, question.method, question.path)
            verdicts[role] = str(status) if status in (401, 403) else "-"
            if question.method != "GET" and status < HTTPStatus.BAD_REQUEST:
                api.set_up()
        found[str(question)] = verdicts
    api.close()
    return found
