"""The subscribe rate: a client that comes back too often is refused, until the rate is removed."""

import time
import uuid

import pulsar
import pytest

from tests.client.conftest import SOON, Target


def test_a_consumer_that_comes_back_too_often_is_refused(target: Target) -> None:
    namespace = f"public/subscribing-{uuid.uuid4().hex[:8]}"
    target.admin("PUT", f"namespaces/{namespace}", {})
    rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 3600}
    target.admin("POST", f"namespaces/{namespace}/subscribeRate", rate)
    # Before anybody loads the topic: a rate that was heard late would begin late.
    assert target.admin("GET", f"namespaces/{namespace}/subscribeRate") == rate
    topic = f"persistent://{namespace}/t"
    for _ in range(2):
        _subscribe(target, topic, "c")
    with pytest.raises(pulsar.NotAllowedError):
        _subscribe(target, topic, "c")
    _subscribe(target, topic, "another")
    target.admin("DELETE", f"namespaces/{namespace}/subscribeRate")
    deadline = time.monotonic() + SOON / 1000
    while True:
        try:
            _subscribe(target, topic, "c")
        except pulsar.NotAllowedError:
            assert time.monotonic() < deadline, "a rate that is gone still holds"
        else:
            break


def _subscribe(target: Target, topic: str, name: str) -> None:
    """Subscribe and leave; the first consumer of a client always has the same id."""
    client = pulsar.Client(
        target.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    try:
        client.subscribe(topic, "s", consumer_name=name).close()
    finally:
        client.close()
