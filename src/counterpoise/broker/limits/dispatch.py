"""Dispatch limits: how much a subscription, a topic, a resource group and a broker may deliver.

A subscription that finds one of its limits empty waits there for its turn; turns go round, and each
delivers what is left at most.

Topics that store nothing have no dispatch limits, as in Pulsar: who is not sent a message at once
is never sent it, so a limit there would lose what it should delay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from counterpoise.broker.limits.dispatch_limit import DispatchLevel, DispatchLimit
from counterpoise.broker.limits.episodes import Episodes
from counterpoise.broker.limits.gate import Gate, Terms
from counterpoise.broker.limits.ports import Published, Waiter
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.names.topic import TopicName


@dataclass(frozen=True, slots=True)
class _Topic:
    """What limits a topic's deliveries, besides the broker's limit."""

    limit: DispatchLimit
    subscription: Rate
    subscriptions: Mapping[str, Rate]
    published: Published
    group: str | None

    def of(self, subscription: str) -> Rate:
        """What one subscription may be delivered."""
        return self.subscriptions.get(subscription, self.subscription)


class DispatchLimits:
    """The dispatch limits of one broker."""

    def __init__(self, broker: str, clock_ns: Callable[[], int], episodes: Episodes) -> None:
        self._now = clock_ns
        self._episodes = episodes
        self._terms = Terms()
        self._broker = self._made(DispatchLevel.BROKER, broker)
        self._groups: dict[str, DispatchLimit] = {}
        self._topics: dict[TopicName, _Topic] = {}
        self._gates: dict[TopicName, dict[Gate, DispatchLimit]] = {}

    def _made(self, level: DispatchLevel, subject: str) -> DispatchLimit:
        return DispatchLimit(level, subject, self._now, self._on_wait)

    def _on_wait(self, limit: DispatchLimit, gate: Waiter) -> None:
        who = f"subscription {gate.subscription} of {gate.topic}"
        self._episodes.began(limit, who)

    def set_terms(self, *, whole_batches: bool, caught_up: bool) -> None:
        """Count by these `Terms` from now on."""
        if (self._terms.whole_batches, self._terms.caught_up) == (whole_batches, caught_up):
            return
        self._terms.whole_batches, self._terms.caught_up = whole_batches, caught_up
        for gates in list(self._gates.values()):
            for gate in list(gates):
                gate.change(gate.limits)

    def set_broker_rate(self, rate: Rate) -> None:
        """Limit all deliveries of this broker."""
        before = self._broker.active
        self._broker.set_rate(rate)
        if self._broker.active != before:
            for name in list(self._gates):
                self._change(name)

    def set_group_rate(self, group: str, rate: Rate) -> None:
        """Limit this broker's part of what a resource group's topics deliver."""
        limit = self._groups.get(group)
        if limit is None:
            if not rate:
                return
            limit = self._groups[group] = self._made(DispatchLevel.RESOURCE_GROUP, group)
        before = limit.active
        limit.set_rate(rate)
        if limit.active != before:
            for name in list(self._gates):
                known = self._topics.get(name)
                if known is not None and known.group == group:
                    self._change(name)

    def set_topic_rates(self, name: TopicName, rates: TopicRates, published: Published) -> None:
        """Limit a topic's deliveries, and those of each of its subscriptions.

        ``published`` is what the topic takes, for rates that are relative to it.
        """
        known = self._topics.get(name)
        limit = known.limit if known else self._made(DispatchLevel.TOPIC, str(name))
        limit.set_rate(rates.dispatch, published)
        each = rates.subscription_dispatch
        found = _Topic(limit, each, rates.subscriptions, published, rates.resource_group)
        if rates.dispatch or each or rates.subscriptions or rates.resource_group is not None:
            self._topics[name] = found
        else:
            self._topics.pop(name, None)
        for gate, own in self._gates.get(name, {}).items():
            own.set_rate(found.of(gate.subscription), published)
        self._change(name)

    def gate(
        self,
        name: TopicName,
        subscription: str,
        go_on: Callable[[], None],
        behind: Callable[[], int],
    ) -> Gate:
        """The gate of a subscription that begins to deliver."""
        own = self._made(DispatchLevel.SUBSCRIPTION, f"{subscription} of {name}")
        known = self._topics.get(name)
        if known is not None:
            own.set_rate(known.of(subscription), known.published)
        gate = Gate((), go_on, self._terms, behind, (str(name), subscription))
        self._gates.setdefault(name, {})[gate] = own
        gate.limits = self._limits(name, own)
        return gate

    def close(self, name: TopicName, gate: Gate) -> None:
        """A subscription delivers no more."""
        gate.close()
        gates = self._gates.get(name, {})
        gates.pop(gate, None)
        if not gates:
            self._gates.pop(name, None)

    def end(self, name: TopicName) -> None:
        """A topic is here no longer."""
        self._topics.pop(name, None)

    def _limits(self, name: TopicName, own: DispatchLimit) -> tuple[DispatchLimit, ...]:
        known = self._topics.get(name)
        found = (
            own,
            known.limit if known else None,
            self._groups.get(known.group) if known and known.group else None,
            self._broker,
        )
        return tuple(each for each in found if each is not None and each.active)

    def _change(self, name: TopicName) -> None:
        for gate, own in list(self._gates.get(name, {}).items()):
            limits = self._limits(name, own)
            if limits != gate.limits:
                gate.change(limits)

    # What can be seen.

    def group(self, name: str) -> DispatchLimit | None:
        """This broker's part of a resource group."""
        return self._groups.get(name)

    def all(self) -> list[DispatchLimit]:
        """Every limit that limits anything, the most general first."""
        found = [self._broker, *self._groups.values()]
        found += [each.limit for each in self._topics.values()]
        found += [own for gates in self._gates.values() for own in gates.values()]
        return [each for each in found if each.active]
