"""Which dispatcher class delivers for each type of subscription."""

from collections.abc import Callable, Mapping
from typing import Final

from counterpoise.broker.topic.dispatch.dispatcher import Dispatcher, DispatcherSpec
from counterpoise.broker.topic.dispatch.failover_order import FailoverOrder
from counterpoise.broker.topic.dispatch.key_shared import KeySharedDispatcher
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.dispatch.shared import SharedDispatcher
from counterpoise.broker.topic.dispatch.single_active import SingleActiveDispatcher
from counterpoise.wire.values import SubscriptionType


def _failover(spec: DispatcherSpec) -> Dispatcher:
    topic, options = spec.topic, spec.commons.options
    order: FailoverOrder[Recipient] = FailoverOrder(
        str(topic), -1 if options.failover_consistent_hashing else topic.partition_index
    )
    delay_ms = options.failover_delay_ms if topic.is_persistent else 0
    return SingleActiveDispatcher(spec, order, switch_delay=delay_ms / 1000)


DISPATCHERS: Final[Mapping[SubscriptionType, Callable[[DispatcherSpec], Dispatcher]]] = {
    SubscriptionType.Exclusive: SingleActiveDispatcher,
    SubscriptionType.Failover: _failover,
    SubscriptionType.Shared: SharedDispatcher,
    SubscriptionType.Key_Shared: KeySharedDispatcher,
}
