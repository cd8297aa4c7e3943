"""Where rates come from, and how a broker follows them as they change."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.limits.rates import Rate, Use, group_rate, rates_of
from counterpoise.broker.namespaces.policies.applied import applied_policies
from counterpoise.metadata import MemoryTree, SessionEvent, StoreUnavailable
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from tests.broker.limits.clients import FakeTopic
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time


class HeardStore:
    """A metadata store whose session events a test makes."""

    def __init__(self) -> None:
        self._store = MemoryTree().open()
        self.listeners: list[Callable[[SessionEvent], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def subscribe_session(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def say(self, event: SessionEvent) -> None:
        for each in list(self.listeners):
            each(event)


class Policies:
    """Policies of one namespace; reading them fails so many times."""

    def __init__(self) -> None:
        self.rate = 10
        self.group: Mapping[str, Any] | None = None
        self.group_name = ""
        self.failures = 0
        self.reads = self.group_reads = 0

    async def applied(self, topic: TopicName, cluster: str) -> Mapping[str, Any]:
        self.reads += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable(str(topic), "away")
        rate = {"publishThrottlingRateInMsg": self.rate}
        return {"publishRate": rate, "resourceGroupName": self.group_name}

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        self.group_reads += 1
        return self.group


class Following:
    """A broker's limits with one topic, which follow the policies."""

    def __init__(self) -> None:
        self.store, self.policies = HeardStore(), Policies()
        self.options = RateOptions()
        self.background = BackgroundTasks()
        self.limits = LimitPolicies(
            "b",
            "here",
            self.store,
            self.policies,
            lambda: self.options,
            clock_ns=now_ns,  # type: ignore[arg-type]
        )
        self.topic = FakeTopic("x")

    async def start(self) -> None:
        self.limits.start(self.background)
        await self.limits.publish.begin(self.topic)

    async def change(self, path: str) -> None:
        await self.store.put(path, b"{}")
        await pass_time(30)

    @property
    def rate(self) -> int:
        (limit,) = (it for it in self.limits.publish.all() if it.level == "TopicPublishRate")
        return limit.messages.rate


@on_jumping_loop
async def test_a_change_is_followed_though_reading_it_fails_at_first() -> None:
    following = Following()
    heard: list[list[TopicName]] = []

    class Follower:
        async def policies_changed(self, names: Iterable[TopicName]) -> None:
            heard.append([*names])

    following.limits.follow_too(Follower())
    await following.start()
    assert following.rate == 10
    following.policies.rate, following.policies.failures = 20, 2
    await following.change(paths.policies(following.topic.name.namespace_name))
    assert following.rate == 20
    following.policies.rate = 30
    await following.change(paths.topic_policies(following.topic.name))
    assert following.rate == 30
    assert heard == [[following.topic.name]] * 2, "once its limits hold"
    reads = following.policies.reads
    await following.change(paths.policies(NamespaceName.parse("t/other")))
    await following.change("/admin/partitioned-topics/t/n/persistent/x")
    assert following.policies.reads == reads, "it read what did not change"
    assert not any(heard[2:])
    await following.limits.publish.prepare(following.topic.name)
    assert following.policies.reads > reads
    following.limits.publish.end(following.topic)
    following.limits.publish.end(following.topic)
    assert following.limits.publish.all() == []


@on_jumping_loop
async def test_a_change_of_a_group_is_followed_where_a_topic_is_in_it() -> None:
    following = Following()
    following.policies.group_name = "g"
    for messages in (5, 7):
        following.policies.group = {"publishRateInMsgs": messages, "dispatchRateInMsgs": 9}
        if messages == 5:
            await following.start()
        await following.change(paths.resource_group("g"))
        publish, dispatch = (
            limits.group("g")
            for limits in (following.limits.publish, following.limits.publish.dispatch)
        )
        assert (publish.messages.rate, dispatch.messages.rate) == (messages, 9)
    reads = following.policies.group_reads
    await following.change(paths.resource_group("other"))
    assert following.policies.group_reads == reads, "it read what did not change"


@pytest.mark.parametrize(
    ("event", "rate"),
    [
        (SessionEvent.RECONNECTED, 20),
        (SessionEvent.SESSION_REESTABLISHED, 20),
        (SessionEvent.CONNECTION_LOST, 10),
        (SessionEvent.SESSION_LOST, 10),
    ],
)
@on_jumping_loop
async def test_what_was_missed_is_read_when_the_store_is_back(
    event: SessionEvent, rate: int
) -> None:
    following = Following()
    following.policies.group_name, following.policies.group = "g", {"publishRateInMsgs": 10}
    await following.start()
    following.policies.rate, following.policies.group = 20, {"publishRateInMsgs": 20}
    following.store.say(event)
    await pass_time(30)
    group = following.limits.publish.group("g")
    assert (following.rate, group and group.messages.rate) == (rate, rate)


@on_jumping_loop
async def test_settings_and_the_end() -> None:
    following = Following()
    await following.start()
    following.options = RateOptions(broker_publish_messages=7, broker_dispatch_messages=8)
    following.limits.settings_changed()
    await pass_time(1)
    limits = [*following.limits.publish.all(), *following.limits.publish.dispatch.all()]
    rates = {str(it.level): it.messages.rate for it in limits if it.messages is not None}
    assert rates == {"BrokerPublishRate": 7, "TopicPublishRate": 10, "BrokerDispatchRate": 8}
    following.limits.stop()
    following.policies.rate = 20
    await following.change(paths.policies(following.topic.name.namespace_name))
    assert following.rate == 10
    assert following.store.listeners == []


@on_jumping_loop
async def test_a_topic_whose_policies_cannot_be_read_is_not_ready() -> None:
    following = Following()
    following.policies.failures = 1
    with pytest.raises(BrokerError):
        await following.start()


PUBLISH = {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 6}
DISPATCH = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": 6}
OPTIONS = RateOptions(
    topic_publish_messages=1, topic_dispatch_messages=2, subscription_dispatch_messages=3
)


def namespace(**rates: Mapping[str, int]) -> dict[str, Any]:
    return {name: {"here": rate, "there": {}} for name, rate in rates.items()}


@pytest.mark.parametrize(
    ("own", "shared", "publish", "dispatch", "each"),
    [
        ({}, {}, Rate(1), Rate(2), Rate(3)),
        (
            {},
            namespace(
                publishMaxMessageRate=PUBLISH,
                topicDispatchRate=DISPATCH,
                subscriptionDispatchRate=DISPATCH,
            ),
            *[Rate(5, 6)] * 3,
        ),
        (
            {
                "publishRate": {"publishThrottlingRateInMsg": 9},
                "dispatchRate": {"dispatchThrottlingRateInMsg": 8},
                "subscriptionDispatchRate": {"dispatchThrottlingRateInByte": 7},
            },
            namespace(
                publishMaxMessageRate=PUBLISH,
                topicDispatchRate=DISPATCH,
                subscriptionDispatchRate=DISPATCH,
            ),
            Rate(9),
            Rate(8),
            Rate(0, 7),
        ),
        # A policy that limits nothing comes before the setting, too.
        (
            {
                "publishRate": dict.fromkeys(PUBLISH, -1),
                "dispatchRate": dict.fromkeys(DISPATCH, -1),
            },
            {},
            Rate(),
            Rate(),
            Rate(3),
        ),
        # What another program wrote: no numbers.
        ({"publishRate": dict.fromkeys(PUBLISH, True)}, {}, Rate(), Rate(2), Rate(3)),
        ({"publishRate": {"publishThrottlingRateInMsg": "5"}}, {}, Rate(), Rate(2), Rate(3)),
        ({"publishRate": 5, "dispatchRate": []}, {}, Rate(1), Rate(2), Rate(3)),
    ],
)
def test_a_topics_rates_come_before_its_namespaces_and_those_before_settings(
    own: dict[str, Any], shared: dict[str, Any], publish: Rate, dispatch: Rate, each: Rate
) -> None:
    found = rates_of(applied_policies(own, shared, "here"), OPTIONS)
    assert (found.publish, found.dispatch, found.subscription_dispatch) == (publish, dispatch, each)


def test_the_rates_of_a_group() -> None:
    group = {"publishRateInMsgs": 1, "publishRateInBytes": 2, "dispatchRateInMsgs": -1}
    assert group_rate(group, Use.PUBLISH) == Rate(1, 2)
    assert group_rate(group, Use.DISPATCH) == group_rate(None, Use.PUBLISH) == Rate()
