"""The page about who may call what, made from the routes that say it."""

from __future__ import annotations

from counterpoise.admin.access import AccessRule, Audience
from counterpoise.admin.app import all_routes
from counterpoise.security.authorization import NAMESPACE_NEEDS, TOPIC_NEEDS

WHO = {
    Audience.ANYBODY: "anybody",
    Audience.METRICS: "anybody, unless `authenticateMetricsEndpoint`",
    Audience.KNOWN: "every authenticated role",
    **dict.fromkeys(
        (
            Audience.SUPER_USER,
            Audience.BROKER,
            Audience.CLUSTER,
            Audience.CLUSTER_POLICY,
            Audience.TENANTS,
        ),
        "super users",
    ),
    Audience.TENANT_ITSELF: "the tenant's administrators",
    Audience.TENANT_ADMIN: "the tenant's administrators",
    Audience.TENANT: "the tenant's administrators",
    Audience.NAMESPACE_POLICY: "the tenant's administrators",
    Audience.TOPIC_POLICY: "the tenant's administrators",
}
HEAD = """\
# Who may call what

Super users (`superUserRoles`) may do everything, a tenant's administrators (`adminRoles`)
everything within it. Others may do what their role was granted on the namespace or the topic. The
operation is what a refusal names, as in Pulsar.

The rules are those of Pulsar 4.0.7. `make access` asks each route of this page of a real standalone
4.0.7 and of ours, as nine roles: anonymous, a stranger, one with a grant on a topic, one for each
of the grants `produce`, `consume`, `functions` and `packages` on the namespace, an administrator of
the tenant, a super user. What Pulsar answered each of them, and the words in which it refused the
stranger, is kept in `tests/security/access/pulsar-4.0.7.tsv`; the suite holds the table against
that. Ours is nowhere laxer. Where Pulsar has no such route (three of `broker-stats`, and twelve
`DELETE`s of policies that it cannot take back) ours asks for what its neighbours ask for, and
`antiAffinity/{group}`, which with authorization Pulsar answers to no role, is for super users.

| request | path | operation | besides administrators and super users |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page, with a row for the methods of a path that ask the same."""
    methods: dict[tuple[str, AccessRule], list[str]] = {}
    for route in all_routes():
        methods.setdefault((route.template, route.access), []).append(route.method)
    return HEAD + "".join(_row(" ".join(found), *what) for what, found in methods.items())


def _row(methods: str, path: str, rule: AccessRule) -> str:
    needs = {Audience.NAMESPACE: NAMESPACE_NEEDS, Audience.TOPIC: TOPIC_NEEDS}.get(rule.audience)
    if needs is None:
        who = WHO[rule.audience]
    else:
        names = " or ".join(f"`{each}`" for each in sorted(needs[rule.operation]))
        who = f"roles granted {names}" if names else "no role"
    return f"| {methods} | `{path}` | {rule.operation} | {who} |\n"
