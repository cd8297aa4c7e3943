"""The rates of a topic: its own policy, else its namespace's, else the broker's setting.

Source: ``HierarchyTopicPolicies`` and ``PublishRate`` of Pulsar 4.0.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from counterpoise.broker.limits.options import RateOptions
from counterpoise.names.topic import TopicName

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rate:
    """Messages and bytes (``size``) that may pass per ``period_s`` seconds; 0: no limit."""

    messages: int = 0
    size: int = 0
    period_s: int = 1
    relative: bool = False
    """Whether it is added to the topic's publish rate (dispatch only)."""

    def __bool__(self) -> bool:
        return self.messages > 0 or self.size > 0


@dataclass(frozen=True, slots=True)
class TopicRates:
    """The rate limits of one topic and its subscriptions, by policies."""

    publish: Rate = Rate()
    resource_group: str | None = None
    dispatch: Rate = Rate()
    """The rate of all deliveries from the topic."""
    subscription_dispatch: Rate = Rate()
    """The rate of deliveries to each of its subscriptions."""
    subscriptions: Mapping[str, Rate] = field(default_factory=dict)
    """By subscription name, rates that replace ``subscription_dispatch``."""
    subscribe: Rate = Rate()
    """How often each consumer may subscribe: ``messages`` of this rate are subscribes."""


async def no_rates(_topic: TopicName) -> TopicRates:
    """Rates without any limit, for a broker without policies."""
    return TopicRates()


def rates_of(policies: JsonObject, options: RateOptions) -> TopicRates:
    """The rates of a topic, from the policies in force for it (``applied_policies``)."""
    policy = policies.get("publishRate")
    if isinstance(policy, Mapping):
        publish = rate(
            policy.get("publishThrottlingRateInMsg"), policy.get("publishThrottlingRateInByte")
        )
    else:
        publish = rate(options.topic_publish_messages, options.topic_publish_bytes)
    group = policies.get("resourceGroupName")
    return TopicRates(
        publish,
        str(group) if group else None,
        _dispatch(
            policies.get("dispatchRate"),
            Rate(
                options.topic_dispatch_messages,
                options.topic_dispatch_bytes,
                relative=options.dispatch_relative,
            ),
        ),
        _dispatch(
            policies.get("subscriptionDispatchRate"),
            Rate(
                options.subscription_dispatch_messages,
                options.subscription_dispatch_bytes,
                relative=options.dispatch_relative,
            ),
        ),
        _of_subscriptions(policies.get("subscriptionPolicies")),
        _subscribe(policies.get("subscribeRate"), options),
    )


def _dispatch(policy: object, otherwise: Rate) -> Rate:
    if not isinstance(policy, Mapping):
        return otherwise
    return Rate(
        _positive(policy.get("dispatchThrottlingRateInMsg")),
        _positive(policy.get("dispatchThrottlingRateInByte")),
        max(1, _positive(policy.get("ratePeriodInSecond"))),
        policy.get("relativeToPublishRate") is True,
    )


def _of_subscriptions(policies: object) -> dict[str, Rate]:
    found = policies.items() if isinstance(policies, Mapping) else ()
    rates = ((name, it.get("dispatchRate")) for name, it in found if isinstance(it, Mapping))
    return {name: _dispatch(rate, Rate()) for name, rate in rates if isinstance(rate, Mapping)}


def _subscribe(policy: object, options: RateOptions) -> Rate:
    if isinstance(policy, Mapping):
        count = _positive(policy.get("subscribeThrottlingRatePerConsumer"))
        period_s = _positive(policy.get("ratePeriodInSecond"))
    else:
        count, period_s = options.subscribes, options.subscribe_period_s
    return Rate(count, period_s=period_s) if period_s else Rate()


class Use(StrEnum):
    """What a resource group limits (``ResourceGroupMonitoringClass``)."""

    PUBLISH = "publish"
    DISPATCH = "dispatch"


def group_rate(group: JsonObject | None, use: Use) -> Rate:
    """The publish or dispatch rate in a resource group's definition (``ResourceGroup``)."""
    found = group or {}
    return rate(found.get(f"{use}RateInMsgs"), found.get(f"{use}RateInBytes"))


def rate(messages: object, size: object) -> Rate:
    """Return a rate per second; a value that is no positive integer means no limit."""
    return Rate(_positive(messages), _positive(size))


def _positive(value: object) -> int:
    # What another program wrote into the policies must not stop a topic from loading.
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
