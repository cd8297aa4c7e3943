"""Dispatch limits: how much a subscription, topic, resource group and broker may deliver.

A subscription that has exceeded a limit waits in that limit's queue for its turn.

Non-persistent topics have no dispatch limits, as in Pulsar: they drop a message that is not
delivered at once, so a limit would drop messages instead of delaying them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoise.broker.limits.dispatch_flow import (
    DispatchCounting,
    Dispatches,
    DispatchFlow,
    DispatchLimit,
    PublishRate,
)
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.names.topic import TopicName
from counterpoise.quota import LimitLevel


@dataclass(frozen=True, slots=True)
class _DeliveringTopic:
    """One topic's dispatch limits: its own, and those of its subscriptions."""

    limit: DispatchLimit
    subscription: Rate
    subscriptions: Mapping[str, Rate]
    published: PublishRate
    group: str | None

    def of(self, subscription: str) -> Rate:
        """The dispatch rate that applies to a subscription of the topic."""
        return self.subscriptions.get(subscription, self.subscription)


class DispatchLimits:
    """All rate limits on one broker's deliveries to consumers."""

    def __init__(self, broker: str, runner: LimitRunner) -> None:
        self._runner = runner
        self._counting = DispatchCounting()
        self._broker = DispatchLimit(LimitLevel.BROKER_DISPATCH, broker)
        self._groups: dict[str, DispatchLimit] = {}
        self._topics: dict[TopicName, _DeliveringTopic] = {}
        self._flows: dict[TopicName, dict[DispatchFlow, DispatchLimit]] = {}
        """By topic, the flows of its subscriptions, each with the subscription's own limit."""

    def set_counting(self, *, whole_batches: bool, caught_up: bool) -> None:
        """Set what counts towards the limits from now on: the fields of `DispatchCounting`."""
        counting = self._counting
        if (counting.whole_batches, counting.caught_up) == (whole_batches, caught_up):
            return
        counting.whole_batches, counting.caught_up = whole_batches, caught_up
        for flow in [flow for flows in self._flows.values() for flow in flows]:
            self._runner.retry(flow)

    def set_broker_rate(self, rate: Rate) -> None:
        """Limit the rate of all deliveries of this broker."""
        if self._set(self._broker, rate):
            for name in list(self._flows):
                self._regroup(name)

    def set_group_rate(self, group: str, rate: Rate) -> None:
        """Set this broker's share of a resource group's dispatch rate."""
        limit = self._groups.get(group)
        if limit is None:
            if not rate:
                return
            limit = self._groups[group] = DispatchLimit(LimitLevel.GROUP_DISPATCH, group)
        if self._set(limit, rate):
            for name in list(self._flows):
                known = self._topics.get(name)
                if known is not None and known.group == group:
                    self._regroup(name)

    def set_topic_rates(self, name: TopicName, rates: TopicRates, published: PublishRate) -> None:
        """Limit the deliveries of a topic and of each of its subscriptions.

        ``published`` is the topic's publish rate, for rates that are relative to it.
        """
        known = self._topics.get(name)
        limit = known.limit if known else DispatchLimit(LimitLevel.TOPIC_DISPATCH, str(name))
        self._set(limit, rates.dispatch, published)
        each = rates.subscription_dispatch
        found = _DeliveringTopic(limit, each, rates.subscriptions, published, rates.resource_group)
        if rates.dispatch or each or rates.subscriptions or rates.resource_group is not None:
            self._topics[name] = found
        else:
            self._topics.pop(name, None)
        for flow, own in self._flows.get(name, {}).items():
            self._set(own, found.of(flow.subscription), published)
        self._regroup(name)

    def _set(self, limit: DispatchLimit, rate: Rate, published: PublishRate | None = None) -> bool:
        """Set a limit's rate; returns whether it starts or stops limiting."""
        before = limit.active
        allowed = limit.follow(rate, published, self._runner.now())
        self._runner.set_rate(limit, allowed.messages, allowed.size, allowed.period_s)
        return limit.active != before

    def join(self, name: TopicName, subscription: str, dispatcher: Dispatches) -> DispatchFlow:
        """Put a subscription's deliveries under its limits; `leave` ends the returned flow."""
        own = DispatchLimit(LimitLevel.SUBSCRIPTION_DISPATCH, f"{subscription} of {name}")
        known = self._topics.get(name)
        if known is not None:
            self._set(own, known.of(subscription), known.published)
        flow = DispatchFlow(self._runner, dispatcher, self._counting, str(name), subscription)
        self._flows.setdefault(name, {})[flow] = own
        flow.limits = self._limits_of(name, own)
        return flow

    def leave(self, name: TopicName, flow: DispatchFlow) -> None:
        """End the flow of a subscription that stopped delivering."""
        self._runner.end(flow)
        flows = self._flows.get(name, {})
        flows.pop(flow, None)
        if not flows:
            self._flows.pop(name, None)

    def end(self, name: TopicName) -> None:
        """Remove the limits of a topic that was unloaded."""
        self._topics.pop(name, None)

    def _limits_of(self, name: TopicName, own: DispatchLimit) -> tuple[DispatchLimit, ...]:
        known = self._topics.get(name)
        found = (
            own,
            known.limit if known else None,
            self._groups.get(known.group) if known and known.group else None,
            self._broker,
        )
        return tuple(each for each in found if each is not None and each.active)

    def _regroup(self, name: TopicName) -> None:
        for flow, own in list(self._flows.get(name, {}).items()):
            limits = self._limits_of(name, own)
            if limits != flow.limits:
                self._runner.set_limits(flow, limits)

    # For the admin API and the metrics.

    def group(self, name: str) -> DispatchLimit | None:
        """The limit of this broker's share of a resource group; None if there is none."""
        return self._groups.get(name)

    def all(self) -> list[DispatchLimit]:
        """Every limit that is set, the most general first."""
        found = [self._broker, *self._groups.values()]
        found += [each.limit for each in self._topics.values()]
        found += [own for flows in self._flows.values() for own in flows.values()]
        return [each for each in found if each.active]
