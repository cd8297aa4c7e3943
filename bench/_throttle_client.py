"""Producers that send as fast as they may, and a neighbour that sends little; one JSON object.

A process of its own, the same against ours and against Apache Pulsar. Receipts are counted in
hundredths of a second, by producer; the neighbour publishes one message at a time and notes how
long each took.
"""

import argparse
import json
import threading
import time
import uuid

import _pulsar
import pulsar

from bench._admin import call
from bench._client import connect

SLOTS_A_SECOND = 100


class Flood:
    """One producer that always has something to send, and when its messages were acknowledged."""

    def __init__(
        self, client: pulsar.Client, topic: str, slots: int, size: int, batch: int
    ) -> None:
        self._producer = client.create_producer(
            topic,
            batching_enabled=batch > 1,
            block_if_queue_full=True,
            max_pending_messages=1000,
            batching_max_messages=max(2, batch),
            batching_max_publish_delay_ms=2,
            send_timeout_millis=0,
        )
        self.acknowledged = [0] * slots
        self._payload = b"x" * size
        self._over = False

    def run(self, began: float) -> None:
        acknowledged, clock = self.acknowledged, time.perf_counter

        def receipt(result: object, _: object) -> None:
            slot = int((clock() - began) * SLOTS_A_SECOND)
            if result == _pulsar.Result.Ok and slot < len(acknowledged):
                acknowledged[slot] += 1

        publish, build = self._producer._producer.send_async, _pulsar.MessageBuilder
        while not self._over:
            message = build()
            message.content(self._payload)
            publish(message.build(), receipt)

    def stop(self) -> None:
        self._over = True


def neighbour(producer: pulsar.Producer, ends: float, rate: int) -> list[float]:
    """Milliseconds that each of its messages took, at so many a second."""
    took = []
    due = time.perf_counter()
    while due < ends and time.perf_counter() < ends:
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        # From when it was due: a message that waits for the one before it is late, too.
        producer.send(b"x" * 100)
        took.append((time.perf_counter() - due) * 1e3)
        due += 1 / rate
    return took


def set_rate(admin_url: str, namespace: str, messages: int, size: int) -> None:
    call(
        "POST",
        f"{admin_url}/admin/v2/namespaces/{namespace}/publishRate",
        {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": size},
    )


def measure(args: argparse.Namespace) -> dict[str, object]:
    namespace = f"public/throttle-{uuid.uuid4().hex[:8]}"
    call("PUT", f"{args.admin_url}/admin/v2/namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    slots = int(args.seconds * SLOTS_A_SECOND)
    clients = [connect(args.url) for _ in range(1 if args.shared else args.producers)]
    topic = f"persistent://{namespace}/limited"
    floods = [
        Flood(clients[n % len(clients)], topic, slots, args.size, args.batch)
        for n in range(args.producers)
    ]
    # In a namespace without a limit, on a throttled producer's connection or on one of its own.
    other = clients[0] if args.neighbour == "shared" else connect(args.url)
    beside = other.create_producer(
        f"persistent://public/default/beside-{uuid.uuid4().hex[:8]}",
        batching_enabled=False,
        send_timeout_millis=0,
    )
    beside.send(b"x")
    set_rate(args.admin_url, namespace, args.messages, args.bytes)
    time.sleep(1.5)  # a broker may hear of it later than this client
    began = time.perf_counter()
    threads = [threading.Thread(target=each.run, args=(began,), daemon=True) for each in floods]
    if not args.idle:
        for thread in threads:
            thread.start()
    # Where the neighbour is stopped with the others, its last message must not wait for ever.
    free = threading.Timer(args.seconds + 2, set_rate, (args.admin_url, namespace, 0, 0))
    free.daemon = True
    free.start()
    took = neighbour(beside, began + args.seconds, 100)
    for each in floods:
        each.stop()
    set_rate(args.admin_url, namespace, 0, 0)
    acknowledged = [each.acknowledged for each in floods]
    return {"acknowledged": acknowledged, "neighbour_ms": took, "in_flight": 0}


def arguments() -> argparse.ArgumentParser:
    """What `_throttle_frames` takes, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--messages", type=int, default=0, help="the limit, a second")
    parser.add_argument("--bytes", type=int, default=0, help="the limit, a second")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1, help="messages in a batch")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help="one connection for all producers")
    parser.add_argument("--neighbour", choices=["shared", "own"], default="shared")
    parser.add_argument("--midway", action="store_true", help="limit those who publish already")
    parser.add_argument("--idle", action="store_true", help="the neighbour alone")
    parser.add_argument("--seconds", type=float, default=10.0)
    return parser


def main() -> None:
    print(json.dumps(measure(arguments().parse_args())), flush=True)
    # Whatever still waits for its receipt is not worth waiting for.
    import os

    os._exit(0)


if __name__ == "__main__":
    main()
