"""Limits that a namespace's policies set, as an official client meets them."""

from collections.abc import Callable

import pulsar
import pytest

from tests.admin.conftest import Api


def test_a_namespace_limits_producers_and_consumers(
    api: Api, namespace: str, connect: Callable[[], pulsar.Client]
) -> None:
    client = connect()
    topic = f"persistent://{namespace}/crowded"
    first = client.create_producer(topic)
    at = f"/admin/v2/namespaces/{namespace}"
    for policy in ("maxProducersPerTopic", "maxConsumersPerSubscription"):
        assert api("POST", f"{at}/{policy}", 1).status == 204
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    first.close()
    client.create_producer(topic)
    shared = pulsar.ConsumerType.Shared
    client.subscribe(topic, "s", shared)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", shared)
    assert api("DELETE", f"{at}/maxConsumersPerSubscription").status == 204
    client.subscribe(topic, "s", shared)
