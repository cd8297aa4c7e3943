"""Publish limits, set and changed by the admin API while the official client publishes."""

import threading
import time
import uuid

import pulsar

from tests.client.conftest import SOON, Target


def test_a_rate_is_set_raised_and_removed_without_a_reconnect(
    target: Target, client: pulsar.Client
) -> None:
    namespace = f"public/limited-{uuid.uuid4().hex[:8]}"
    target.admin("PUT", f"namespaces/{namespace}", {})
    producer = client.create_producer(
        f"persistent://{namespace}/t", batching_enabled=False, send_timeout_millis=0
    )
    connected = _stats(target, namespace)["publishers"][0]["connectedSince"]

    def set_rate(messages: int) -> None:
        rate = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": 0}
        target.admin("POST", f"namespaces/{namespace}/publishRate", rate)

    set_rate(1)
    # However slowly the broker hears of it, so much can't pass before it has.
    deadline = time.monotonic() + SOON / 1000
    while True:
        receipts = _publish(producer, 50)
        if not receipts.wait(1):
            break
        assert time.monotonic() < deadline, "the rate was never felt"
    set_rate(100_000)
    assert receipts.wait(SOON / 1000), "a raised rate releases what waits"
    set_rate(1)
    while _publish(producer, 50).wait(1):
        assert time.monotonic() < deadline, "the rate was never felt"
    target.admin("DELETE", f"namespaces/{namespace}/publishRate")
    producer.flush()
    assert _stats(target, namespace)["publishers"][0]["connectedSince"] == connected


def _stats(target: Target, namespace: str) -> dict:  # type: ignore[type-arg]
    return target.admin("GET", f"persistent/{namespace}/t/stats")  # type: ignore[return-value]


def _publish(producer: pulsar.Producer, count: int) -> threading.Event:
    """Publish so many; the event is set when all are acknowledged."""
    done = threading.Event()
    left = [count]

    def receipt(result: pulsar.Result, _: object) -> None:
        assert result == pulsar.Result.Ok
        left[0] -= 1
        if not left[0]:
            done.set()

    for _ in range(count):
        producer.send_async(b"x", receipt)
    return done
