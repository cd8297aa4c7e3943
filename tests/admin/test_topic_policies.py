"""Policies of single topics: set, read, what holds, and gone with the topic."""

import pytest

from counterpoise.admin.policies import TOPIC_POLICIES
from counterpoise.admin.rest.policy_routes import in_place
from tests.admin.conftest import Api

VALUES = {
    "publishRate": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1},
    "retention": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 7},
    "subscriptionTypesEnabled": ["Shared"],
    "schemaCompatibilityStrategy": "BACKWARD",
    "replication": ["standalone"],
    "deduplicationEnabled": True,
    "persistence": {f"bookkeeper{it}": 2 for it in ("Ensemble", "WriteQuorum", "AckQuorum")},
}
RATE = {
    **dict.fromkeys(("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte"), 0),
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 0,
}


@pytest.mark.parametrize("policy", TOPIC_POLICIES, ids=lambda policy: policy.path)
def test_each_is_set_read_and_removed(api: Api, namespace: str, policy: object) -> None:
    path, method, by_query = policy.path, policy.method, policy.by_query  # type: ignore[attr-defined]
    topic = f"/admin/v2/persistent/{namespace}/one"
    assert api("GET", f"{topic}/{path}").status == 404
    assert api("PUT", topic).status == 204
    at = f"{topic}/{path}"
    unset = "" if policy.unset is None else policy.unset  # type: ignore[attr-defined]
    assert api("GET", at).value == unset
    kind = policy.shape["type"]  # type: ignore[attr-defined]
    value = VALUES.get(path, {"integer": 5, "object": {}, "boolean": True}.get(kind))
    if by_query:
        assert api(method, f"{at}?{by_query}={value}").status == 204
    else:
        assert api(method, at, value).status == 204
    found = api.get(at)
    assert found == ({**found, **value} if isinstance(value, dict) else value)
    assert api("DELETE", at).status == 204
    assert api("GET", at).value == unset


def test_a_change_of_policies_is_made_to_a_copy_and_can_be_repeated() -> None:
    before = {"quotas": {"size": {"limit": 1}}, "rates": [1]}

    def change(policies: dict[str, object]) -> None:
        policies["quotas"]["age"] = {}  # type: ignore[index]
        policies["rates"].append(2)  # type: ignore[attr-defined]

    after = {"quotas": {"size": {"limit": 1}, "age": {}}, "rates": [1, 2]}
    assert in_place(change)(before) == in_place(change)(before) == after
    assert before == {"quotas": {"size": {"limit": 1}}, "rates": [1]}


def test_what_holds_is_the_topics_own_or_else_its_namespaces(api: Api, namespace: str) -> None:
    topic = f"/admin/v2/persistent/{namespace}/one"
    assert api("PUT", topic).status == 204
    rate = {"publishThrottlingRateInMsg": 9, "publishThrottlingRateInByte": 10}
    assert api("POST", f"/admin/v2/namespaces/{namespace}/publishRate", rate).status == 204
    assert api("GET", f"{topic}/publishRate").value == ""
    assert api.get(f"{topic}/publishRate?applied=true") == rate
    own = {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 2}
    assert api("POST", f"{topic}/publishRate", own).status == 204
    assert api.get(f"{topic}/publishRate?applied=true") == own
    everywhere, in_force = "publishRate?isGlobal=true", "publishRate?applied=true"
    assert api("GET", f"{topic}/{everywhere}").value == ""
    of_all = {"publishThrottlingRateInMsg": 3, "publishThrottlingRateInByte": 4}
    assert api("POST", f"{topic}/{everywhere}", of_all).status == 204
    read = (api.get(f"{topic}/{each}") for each in (everywhere, "publishRate", in_force))
    assert [*read] == [of_all, own, own], "the local policy overrides the global one"
    assert api("DELETE", f"{topic}/publishRate").status == 204
    assert api("GET", f"{topic}/publishRate").value == ""
    assert api.get(f"{topic}/{in_force}") == of_all
    assert api("DELETE", f"{topic}/policies").status == 204
    assert api.get(f"{topic}/{in_force}") == rate
    assert api("POST", f"/admin/v2/namespaces/{namespace}/dispatchRate", {}).status == 204
    assert api.get(f"{topic}/dispatchRate?applied=true") == RATE, "not the broker's"


def test_a_subscription_has_a_rate_of_its_own(api: Api, namespace: str) -> None:
    topic = f"/admin/v2/persistent/{namespace}/one"
    assert api("PUT", topic).status == 204
    slow, fast = ({**RATE, "dispatchThrottlingRateInMsg": number} for number in (5, 500))
    one, other = (f"{topic}/{name}/dispatchRate" for name in ("one", "other"))
    assert api("GET", one).value == ""
    assert [api("POST", one, slow).status, api("POST", other, fast).status] == [204, 204]
    assert (api.get(one), api.get(other)) == (slow, fast)
    assert api("POST", f"{topic}/subscriptionDispatchRate", RATE | {"ratePeriodInSecond": 9})
    in_force = [api.get(f"{topic}/{each}/dispatchRate?applied=true") for each in ("one", "none")]
    assert [each["ratePeriodInSecond"] for each in in_force] == [0, 9]
    assert api("GET", f"{topic}/dispatchRate").value == "", "the topic has none"
    assert api("POST", one).status == 204, "without a body it is removed"
    assert (api("GET", one).value, api.get(other)) == ("", fast)
    assert api("DELETE", other).status == 204
    assert api("GET", other).value == ""


@pytest.mark.parametrize(
    ("retention", "quota"),
    [
        ({"retentionSizeInMB": 10, "retentionTimeInMinutes": -1}, {"limitSize": 10 << 20}),
        ({"retentionSizeInMB": -1, "retentionTimeInMinutes": 10}, {"limitTime": 600}),
    ],
)
@pytest.mark.parametrize("of_topic", [False, True])
def test_retention_has_to_exceed_the_backlog_quota(
    api: Api, namespace: str, retention: dict[str, int], quota: dict[str, int], of_topic: bool
) -> None:
    shared = f"/admin/v2/namespaces/{namespace}"
    at = f"/admin/v2/persistent/{namespace}/one" if of_topic else shared
    if of_topic:
        assert api("PUT", at).status == 204
    smaller = {name: limit - 1 for name, limit in quota.items()}
    quota, smaller = ({**each, "policy": "producer_exception"} for each in (quota, smaller))
    assert api("POST", f"{shared}/retention", retention).status == 204
    assert api("POST", f"{at}/backlogQuota", quota).status == 412
    assert api("POST", f"{at}/backlogQuota", smaller).status == 204
    assert api("DELETE", f"{shared}/retention").status == 204
    assert api("POST", f"{at}/backlogQuota", quota).status == 204
    assert api("POST", f"{at}/retention", retention).status == 412
    assert api("POST", f"{at}/backlogQuota", {"limitSize": 1}).status == 400
    for name in retention:
        assert api("POST", f"{at}/retention", {**retention, name: -2}).status == 400


def test_replication_clusters_of_a_topic_include_its_own(api: Api, namespace: str) -> None:
    at = f"/admin/v2/persistent/{namespace}/one"
    assert api("PUT", at).status == 204
    for refused in (None, [], ["elsewhere"]):
        assert api("POST", f"{at}/replication", refused).status == 412


def test_the_strategy_in_force_may_be_that_of_the_older_policy(api: Api, namespace: str) -> None:
    topic, older = f"/admin/v2/persistent/{namespace}/one", "schemaAutoUpdateCompatibilityStrategy"
    assert api("PUT", topic).status == 204
    assert api.get(f"{topic}/schemaCompatibilityStrategy?applied=true") == "FULL"
    at = f"/admin/v2/namespaces/{namespace}/{older}"
    assert api("PUT", at, "AutoUpdateDisabled").status == 204
    in_force = api.get(f"{topic}/schemaCompatibilityStrategy?applied=true")
    assert in_force == "ALWAYS_INCOMPATIBLE"


def test_a_partition_has_none_of_its_own_and_a_new_topic_has_none(api: Api, namespace: str) -> None:
    topic = f"/admin/v2/persistent/{namespace}/many"
    assert api("PUT", f"{topic}/partitions", 2).status == 204
    assert api("POST", f"{topic}/maxProducers", 3).status == 204
    assert api("GET", f"{topic}-partition-1/maxProducers").status == 412
    assert api("POST", f"{topic}/maxProducers", -1).status == 412
    assert api("POST", f"{topic}/messageTTL?messageTTL=7").status == 204
    assert api("POST", f"{topic}/messageTTL").status == 204
    assert api("GET", f"{topic}/messageTTL").value == "", "without a value it is removed"
    refused = api("POST", f"{topic}/messageTTL?messageTTL=-1")
    assert (refused.status, refused.reason) == (412, "Invalid value for message TTL")
    for path in ("maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnSubscription"):
        refused = api("POST", f"{topic}/{path}", -1)
        assert (refused.status, refused.reason) == (412, "maxUnackedNum must be 0 or more")
    assert api("POST", f"{topic}/messageTTL?messageTTL=soon").status == 412
    assert api("DELETE", f"{topic}-partition-1/policies").status == 204
    assert api("GET", f"{topic}/maxProducers").value == "", "a partition has those of its topic"
    assert api("POST", f"{topic}/maxProducers", 3).status == 204
    assert api("DELETE", f"{topic}/partitions").status == 204
    assert api("PUT", f"{topic}/partitions", 2).status == 204
    assert api("GET", f"{topic}/maxProducers").value == ""


def test_the_policies_of_a_partitioned_topic_outlive_a_partition(api: Api, namespace: str) -> None:
    topic = f"/admin/v2/non-persistent/{namespace}/many"
    assert api("PUT", f"{topic}/partitions", 2).status == 204
    assert api("POST", f"{topic}/maxProducers", 3).status == 204
    assert api("PUT", f"{topic}-partition-1").status == 204
    assert api("DELETE", f"{topic}-partition-1").status == 204
    assert api.get(f"{topic}/maxProducers") == 3
