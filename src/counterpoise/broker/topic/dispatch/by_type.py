"""Which dispatcher serves which type of subscription."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.dispatch.delivery_turns import DeliveryTurns
from counterpoise.broker.topic.dispatch.dispatcher import Dispatcher
from counterpoise.broker.topic.dispatch.failover_order import FailoverOrder
from counterpoise.broker.topic.dispatch.key_shared import KeySharedDispatcher
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.dispatch.shared import SharedDispatcher
from counterpoise.broker.topic.dispatch.single_active import SingleActiveDispatcher
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.broker.topic.topic_rules import TopicRules
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.wire.values import SubscriptionType


@dataclass(frozen=True, slots=True)
class DispatcherSpec:
    """What a dispatcher is built from: topic, log, acknowledgements, first consumer's request."""

    topic: TopicName
    log: Log[Any]
    acks: AckState
    options: TopicOptions
    rules: TopicRules
    turns: DeliveryTurns
    request: SubscribeRequest


def _exclusive(spec: DispatcherSpec) -> Dispatcher:
    return SingleActiveDispatcher(spec.log, spec.acks, spec.turns)


def _failover(spec: DispatcherSpec) -> Dispatcher:
    topic, options = spec.topic, spec.options
    order: FailoverOrder[Recipient] = FailoverOrder(
        str(topic), -1 if options.failover_consistent_hashing else topic.partition_index
    )
    delay_ms = options.failover_delay_ms if topic.is_persistent else 0
    return SingleActiveDispatcher(
        spec.log, spec.acks, spec.turns, order, switch_delay=delay_ms / 1000
    )


def _shared(spec: DispatcherSpec) -> Dispatcher:
    return SharedDispatcher(spec.log, spec.acks, spec.turns, spec.options, spec.rules)


def _key_shared(spec: DispatcherSpec) -> Dispatcher:
    return KeySharedDispatcher(
        spec.log, spec.acks, spec.turns, spec.options, spec.rules, spec.request.key_shared
    )


DISPATCHERS: Final[Mapping[SubscriptionType, Callable[[DispatcherSpec], Dispatcher]]] = {
    SubscriptionType.Exclusive: _exclusive,
    SubscriptionType.Failover: _failover,
    SubscriptionType.Shared: _shared,
    SubscriptionType.Key_Shared: _key_shared,
}
