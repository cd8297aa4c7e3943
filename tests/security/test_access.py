"""Our table of who may call what, held against what a real Pulsar 4.0.7 answered to each role.

`make access` asks a real Pulsar again, and ours over HTTP.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.admin.access import Audience, word_of
from counterpoise.admin.errors import RestError
from counterpoise.admin.permission import AccessRequest, permit
from counterpoise.names.namespace import NamespaceName
from counterpoise.security.authorization import Authorization, Caller
from counterpoise.security.options import AuthorizationOptions
from tests.security.access.questions import (
    BROKER,
    GRANTS,
    OURS,
    ROLES,
    Question,
    Verdicts,
    name_of,
    questions,
    verdicts_of,
)
from tests.security.access.vectors import ASKED_BY_HANDLER, EXPLAINED, differences, read


class GrantedPolicies:
    """The policies of the cluster that the questions are about."""

    async def tenant(self, name: str) -> Mapping[str, Any] | None:
        return {"adminRoles": ["boss"]} if name == OURS["tenant"] else None

    async def namespace(self, namespace: NamespaceName) -> Mapping[str, Any] | None:
        member = {"member": ["produce", "consume"]}
        return {
            "auth_policies": {
                "namespace_auth": GRANTS,
                "destination_auth": {f"persistent://acme/ns/{topic}": member for topic in "tp"},
            }
        }


RULES = Authorization(
    lambda: AuthorizationOptions(enabled=True, super_users=("admin",)), GrantedPolicies()
)


async def said(question: Question, role: str) -> tuple[int, str]:
    rule = question.rule
    if role == "anonymous":
        return (0 if rule.audience in (Audience.ANYBODY, Audience.METRICS) else 401), ""
    words = question.template.split("/")
    holes = [word[1:-1] for word in words if word.startswith("{")]
    names = {hole: name_of(hole, question.template) for hole in holes}
    access = AccessRequest(question.method, names, word_of(question.template), BROKER)
    try:
        await permit(RULES, Caller(role), rule, access)
    except RestError as denied:
        return int(denied.status), denied.reason
    return 0, ""


async def ours() -> dict[str, Verdicts]:
    return {
        str(question): verdicts_of({role: await said(question, role) for role in ROLES})
        for question in questions()
    }


async def test_every_role_is_let_do_what_pulsar_lets_it() -> None:
    found = differences(await ours(), read())
    assert {route: access for route, access in found.items() if route not in EXPLAINED} == {}
    assert EXPLAINED.keys() <= found.keys(), "explained, and no different any more"


async def test_no_role_may_do_what_pulsar_refuses() -> None:
    mine = await ours()
    laxer = {
        (route, role)
        for route, each in read().items()
        for role in ROLES
        if each[role] != "-" and mine[route][role] == "-" and route not in ASKED_BY_HANDLER
    }
    assert laxer == set()
    # Where Pulsar is no guide, at least no grant is enough.
    assert {mine[route][role] for route in EXPLAINED for role in ROLES[:-2]} == {"401", "403"}


def test_every_route_was_asked() -> None:
    assert read().keys() == {str(question) for question in questions()}


@pytest.mark.parametrize("role", ROLES)
def test_the_answers_distinguish_the_roles(role: str) -> None:
    """Each role may do something that the others may not, or nothing: the policies are as meant."""
    mine = {route for route, each in read().items() if each[role] == "-"}
    for other in ROLES:
        same = mine == {route for route, each in read().items() if each[other] == "-"}
        assert same == (other == role) or {other, role} <= {"stranger", "runner", "packer"}


async def test_a_missing_tenant_is_named_but_where_only_super_users_may() -> None:
    """As a real Pulsar 4.0.7 answered to a stranger at every route with a tenant in its path."""
    names = OURS | {"tenant": "missing"}
    open_to_all = (Audience.ANYBODY, Audience.KNOWN, Audience.METRICS)
    for question in questions():
        rule = question.rule
        if "{tenant}" not in question.template or rule.audience in open_to_all:
            continue
        access = AccessRequest(question.method, names, word_of(question.template), BROKER)
        with pytest.raises(RestError) as denied:
            await permit(RULES, Caller("stranger"), rule, access)
        of_super_users = rule.audience in (Audience.TENANT_ITSELF, Audience.SUPER_USER)
        assert (denied.value.status == 404) is not of_super_users, question
