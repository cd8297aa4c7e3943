"""In which words a request is refused that its caller may not make."""

from typing import cast

import pytest

from counterpoise.admin.access import (
    CLUSTER_POLICY,
    NAMESPACE_POLICY,
    TENANT_ADMIN,
    TOPIC_POLICY,
    AccessRule,
    Audience,
    broker,
    namespace,
    topic,
)
from counterpoise.admin.errors import RestError
from counterpoise.admin.permission import AccessRequest, permit
from counterpoise.security.authorization import Authorization, Caller

PATH = {"tenant": "t", "namespace": "n", "topic": "x", "cluster": "c"}


class NothingAllowed:
    """Rules by which no role may do anything; ``proxy`` is a proxy's role."""

    def is_proxy(self, role: str | None) -> bool:
        return role == "proxy"

    async def super_user(self, caller: Caller) -> bool:
        del caller
        return False

    async def tenant_admin(self, caller: Caller, tenant: str) -> bool:
        del caller, tenant
        return False

    async def namespace(self, *_: object) -> bool:
        return False

    async def topic(self, *_: object) -> bool:
        return False


async def refusal(
    rule: AccessRule, method: str = "GET", word: str = "messageTTL", **who: str
) -> str:
    access = AccessRequest(method, PATH, word, "b:1")
    rules = cast("Authorization", NothingAllowed())
    with pytest.raises(RestError) as denied:
        await permit(rules, Caller(who.get("role", "r"), who.get("original")), rule, access)
    return f"{denied.value.status:d} {denied.value.reason}"


@pytest.mark.parametrize(("method", "verb"), [("GET", "READ"), ("POST", "WRITE")])
async def test_a_policy_is_read_or_written(method: str, verb: str) -> None:
    assert await refusal(NAMESPACE_POLICY, method) == (
        "403 Unauthorized to validateNamespacePolicyOperation "
        f"for operation [{verb}] on namespace [t/n] on policy [TTL]"
    )
    assert await refusal(TOPIC_POLICY, method, "") == (
        "403 Unauthorized to validateTopicPolicyOperation "
        f"for operation [{verb}] on topic [persistent://t/n/x] on policy [ALL]"
    )
    assert (await refusal(CLUSTER_POLICY, method)).endswith(
        f"about operation [{verb}] on cluster [c]"
    )


async def test_who_asks_is_named_and_for_whom() -> None:
    rule = broker("HEALTH_CHECK")
    words = "401 Unauthorized to validateBothSuperuserAndBrokerOperation for originalPrincipal"
    about = "about operation [HEALTH_CHECK] on broker [b:1]"
    assert await refusal(rule) == f"{words} [null] and clientAppId [r] {about}"
    assert await refusal(rule, role="proxy", original="o") == (
        f"{words} [o] and clientAppId [proxy] {about}"
    )
    assert "Original principal cannot be empty" in await refusal(rule, role="proxy")


async def test_what_is_asked_for_first_decides_the_words() -> None:
    both = AccessRule(Audience.TENANT_ADMIN, after=topic("LOOKUP"))
    assert "for operation [LOOKUP] on topic" in await refusal(both)
    assert await refusal(TENANT_ADMIN) == (
        "401 Don't have permission to administrate resources on this tenant"
    )
    assert "for operation [UNLOAD] on namespace [t/n]" in await refusal(namespace("UNLOAD"))
