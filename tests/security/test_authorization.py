"""Which role may do what, where grants, patterns, partitions and proxies meet."""

from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.admin.access import AccessRule, Audience
from counterpoise.admin.errors import RestError
from counterpoise.admin.permission import AccessRequest, permit
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import Authorization, Caller, SubscriptionRefused
from counterpoise.security.options import AuthorizationOptions

WHOLE = TopicName.parse("persistent://acme/app/orders")
PART = TopicName.parse("persistent://acme/app/orders-partition-3")
OTHER = TopicName.parse("persistent://acme/app/others")


class Granted:
    def __init__(self, **auth: Any) -> None:
        self.mode = auth.pop("mode", None)
        self.auth = auth

    async def tenant(self, name: str) -> Mapping[str, Any] | None:
        return {"adminRoles": ["boss" if name == "acme" else "their boss"]}

    async def namespace(self, namespace: NamespaceName) -> Mapping[str, Any] | None:
        return {"auth_policies": self.auth, "subscription_auth_mode": self.mode}


def rules(granted: Granted, **options: Any) -> Authorization:
    settings = AuthorizationOptions(enabled=True, **options)
    return Authorization(lambda: settings, granted)


async def may(found: Authorization, role: str | None, topic: TopicName, **proxy: Any) -> bool:
    return await found.topic(Caller(role, **proxy), topic, "CONSUME")


@pytest.mark.parametrize(
    ("pattern", "role", "wildcards", "whole", "part"),
    [
        ("alice", "alice", False, True, True),
        ("alice", "alice", True, True, True),
        # A pattern that was granted the partitioned topic counts for no partition of it.
        ("al*", "alice", True, True, False),
        ("*ce", "alice", True, True, False),
        ("al*", "alice", False, False, False),
        ("al*", "bob", True, False, False),
        ("al*", "malice", True, False, False),
        ("*ce", "alicent", True, False, False),
        ("*", "bob", True, True, False),
    ],
)
async def test_a_grant_on_a_partitioned_topic(
    pattern: str, role: str, wildcards: bool, whole: bool, part: bool
) -> None:
    granted = Granted(destination_auth={str(WHOLE): {pattern: ["consume"]}})
    found = rules(granted, wildcards=wildcards)
    assert await may(found, role, WHOLE) is whole
    assert await may(found, role, PART) is part
    assert not await may(found, role, OTHER)
    assert not await may(found, None, PART)


async def test_a_pattern_on_the_partition_itself_or_on_the_namespace_counts() -> None:
    for granted in (
        Granted(destination_auth={str(PART): {"al*": ["consume"]}}),
        Granted(namespace_auth={"al*": ["consume"]}),
    ):
        assert await may(rules(granted, wildcards=True), "alice", PART)
        assert not await may(rules(granted), "alice", PART)
        assert not await may(rules(granted, wildcards=True), None, PART)


async def test_a_grant_on_the_whole_counts_for_its_first_partition() -> None:
    granted = Granted(destination_auth={str(WHOLE): {"alice": ["consume"]}})
    assert await may(rules(granted), "alice", TopicName.parse(f"{WHOLE}-partition-0"))


async def test_a_client_of_a_proxy_needs_both_roles_to_be_allowed() -> None:
    granted = Granted(namespace_auth={"proxy": ["consume"], "alice": ["consume"], "eve": []})
    found = rules(granted, proxies=("proxy",))
    assert await may(found, "proxy", WHOLE, original="alice")
    assert not await may(found, "proxy", WHOLE, original="eve")
    assert not await may(found, "proxy", WHOLE), "for whom does it ask?"
    assert not await may(found, "alice", WHOLE, original="boss"), "alice is no proxy"
    assert await may(found, "alice", WHOLE, original="alice"), "it names itself"
    weak = rules(Granted(namespace_auth={"alice": ["consume"]}), proxies=("proxy",))
    assert not await may(weak, "proxy", WHOLE, original="alice")
    assert not await may(rules(granted, proxies=("proxy", "p2")), "proxy", WHOLE, original="p2")
    assert "must be provided" in str(found.why_invalid(Caller("proxy", "")))
    # A connection is refused to a role that names itself, a request is not.
    itself = Caller("alice", "alice")
    assert "without valid proxy role" in str(found.why_invalid(itself))
    assert found.why_invalid(itself, for_itself=True) is None


async def test_a_proxy_names_its_client_in_each_request_of_the_admin_api() -> None:
    found = rules(Granted(), proxies=("proxy",), super_users=("proxy",))
    access = AccessRequest("GET", {}, "", "b1:8080")
    with pytest.raises(RestError, match="Original principal cannot be empty"):
        await permit(found, Caller("proxy"), AccessRule(Audience.SUPER_USER), access)


@pytest.mark.parametrize(
    ("caller", "named"),
    [
        (Caller("root"), True),
        (Caller("root", "admin"), True),
        (Caller("root", "alice"), False),
        (Caller("alice", "root"), False),
        (Caller(None), False),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_super_users_are_named_whether_or_not_roles_are_checked(
    caller: Caller, named: bool, enabled: bool
) -> None:
    options = AuthorizationOptions(enabled=enabled, super_users=("root", "admin"))
    assert Authorization(lambda: options, Granted()).names_super_user(caller) is named


async def test_a_subscription_for_named_roles_or_with_a_prefix() -> None:
    granted = Granted(
        namespace_auth={"alice": ["consume"], "bob": ["consume"]},
        subscription_auth_roles={"s": ["bob"], "free": []},
    )

    async def subscribe(found: Authorization, role: str | None, name: str) -> bool:
        return await found.topic(Caller(role), WHOLE, "SUBSCRIBE", name)

    found = rules(granted)
    assert [await subscribe(found, role, "s") for role in ("alice", "bob")] == [False, True]
    assert await subscribe(found, "alice", "free")
    granted.mode = "Prefix"
    assert await subscribe(found, "alice", "alice-1")
    for other in ("bob-1", "bob-alice-1"):
        with pytest.raises(SubscriptionRefused, match="like alice-xxxx for topic: persistent://"):
            await subscribe(found, "alice", other)
    with pytest.raises(SubscriptionRefused):
        await subscribe(found, None, "alice-1")
    # A proxy that may not hand it on, too: the refusal of its client's name says more than "no".
    of_proxy = rules(granted, proxies=("proxy",))
    with pytest.raises(SubscriptionRefused, match="like alice-xxxx"):
        await of_proxy.topic(Caller("proxy", "alice"), WHOLE, "SUBSCRIBE", "proxy-1")
    # It holds for consuming alone, and not for those who administer the tenant.
    assert await subscribe(found, "boss", "bob-1")
    assert await found.topic(Caller("alice"), WHOLE, "LOOKUP", "bob-1")


async def test_administrators_of_another_tenant_may_nothing() -> None:
    found = rules(Granted(), super_users=("root",))
    theirs = TopicName.parse("persistent://other/app/orders")
    assert [await may(found, "boss", each) for each in (WHOLE, theirs)] == [True, False]
    assert [await may(found, "root", each) for each in (WHOLE, theirs)] == [True, True]
    assert not await found.super_user(Caller("boss"))
    assert not await found.tenant_admin(Caller(None), "acme")
