"""The page about who may call what, made from the table that decides it."""

from __future__ import annotations

from counterpoise.admin.access import TABLE, Kind, Need
from counterpoise.security.authorization import NAMESPACE_NEEDS, TOPIC_NEEDS

WHO = {
    Kind.ANYBODY: "anybody",
    Kind.METRICS: "anybody, unless `authenticateMetricsEndpoint`",
    Kind.KNOWN: "whoever proves who they are",
    **dict.fromkeys(
        (Kind.SUPER_USER, Kind.BROKER, Kind.CLUSTER, Kind.CLUSTER_POLICY, Kind.TENANTS),
        "super users",
    ),
    Kind.TENANT_ITSELF: "the tenant's administrators",
    Kind.TENANT_ADMIN: "the tenant's administrators",
    Kind.TENANT: "the tenant's administrators",
    Kind.NAMESPACE_POLICY: "the tenant's administrators",
    Kind.TOPIC_POLICY: "the tenant's administrators",
}
HEAD = """\
# Who may call what

Super users (`superUserRoles`) may do everything, a tenant's administrators (`adminRoles`)
everything within it. Others may do what their role was granted on the namespace or the topic. The
first row that matches a request counts, and `*` in a path is anything; a route without a row is not
served. The operation is what a refusal names, as in Pulsar.

The rules are those of Pulsar 4.0.7. `make access` asks each route of this page of a real standalone
4.0.7 and of ours, as nine roles: nobody, a stranger, one with a grant on a topic, one for each of
the grants `produce`, `consume`, `functions` and `packages` on the namespace, an administrator of
the tenant, a super user. What Pulsar answered each of them, and the words in which it refused the
stranger, is kept in `tests/security/access/pulsar-4.0.7.tsv`; the suite holds the table against
that. Ours is nowhere laxer. Where Pulsar has no such route (three of `broker-stats`, and twelve
`DELETE`s of policies that it cannot take back) ours asks for what its neighbours ask for, and
`antiAffinity/{group}`, which with authorization Pulsar answers to nobody, is for super users.

| request | path | operation | besides administrators and super users |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page."""
    return HEAD + "".join(map(_row, TABLE))


def _row(row: tuple[str, str, Need]) -> str:
    method, path, need = row
    needs = {Kind.NAMESPACE: NAMESPACE_NEEDS, Kind.TOPIC: TOPIC_NEEDS}.get(need.kind)
    if needs is None:
        who = WHO[need.kind]
    else:
        grants = sorted(needs[need.operation])
        who = "roles granted " + " or ".join(f"`{each}`" for each in grants) if grants else "nobody"
    return f"| {'any' if method == '*' else method} | `{path}` | {need.operation} | {who} |\n"
