"""The page about who may call what, made from the table that decides it."""

from __future__ import annotations

from counterpoise.admin.access import TABLE, Kind, Need
from counterpoise.security.authorization import NAMESPACE_NEEDS, TOPIC_NEEDS

WHO = {
    Kind.ANYBODY: "anybody",
    Kind.METRICS: "anybody, unless `authenticateMetricsEndpoint`",
    Kind.KNOWN: "whoever proves who they are",
    Kind.SUPER_USER: "super users",
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
served. The rules are those of Pulsar 4.0.7, and held against its own `AuthorizationService`.

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
