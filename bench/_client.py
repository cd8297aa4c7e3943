"""The official Python client as a measuring instrument, in a process of its own.

The same code runs against ours and against Apache Pulsar; it prints one JSON object.
"""

import argparse
import json
import statistics
import struct
import threading
import time
import uuid

import _pulsar
import pulsar

from bench._admin import call

PAYLOAD_BYTES = 100
WARM_UP = 2_000


def connect(url: str) -> pulsar.Client:
    return pulsar.Client(
        url,
        operation_timeout_seconds=30,
        io_threads=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def throughput(
    url: str, admin_url: str, *, batched: bool, stored: bool, messages: int
) -> dict[str, float]:
    """Publish ``messages`` as fast as they are acknowledged.

    The client must not be what is measured: its Python layer checks arguments for longer than a
    broker takes for the message, and a Python callback for each receipt costs as much again. So
    messages go straight to the C++ client, `flush` waits for the receipts, and the broker's own
    counter says whether all have arrived.
    """
    client = connect(url)
    domain = "persistent" if stored else "non-persistent"
    topic = f"public/default/bench-{uuid.uuid4().hex[:8]}"
    producer = client.create_producer(
        f"{domain}://{topic}",
        batching_enabled=batched,
        block_if_queue_full=True,
        max_pending_messages=20_000 if batched else 5_000,
        batching_max_messages=1_000,
        batching_max_publish_delay_ms=5,
        send_timeout_millis=0,
    )
    payload = b"x" * PAYLOAD_BYTES
    publish, build = producer._producer.send_async, _pulsar.MessageBuilder

    def burst(count: int) -> None:
        for _ in range(count):
            message = build()
            message.content(payload)
            publish(message.build(), None)
        producer.flush()

    burst(WARM_UP)  # the topic is loaded and the paths are warm before the clock starts
    started = time.perf_counter()
    burst(messages)
    seconds = time.perf_counter() - started
    arrived = call("GET", f"{admin_url}/admin/v2/{domain}/{topic}/stats")["msgInCounter"]
    client.close()
    if arrived != messages + WARM_UP:
        raise SystemExit(f"{messages + WARM_UP} messages were sent, {arrived} have arrived")
    return {"messages_per_second": messages / seconds}


def latency(url: str, *, rate: int, seconds: float) -> dict[str, float]:
    """End to end, publish to receive, at a fixed rate of unbatched messages; milliseconds."""
    client = connect(url)
    topic = f"persistent://public/default/latency-{uuid.uuid4().hex[:8]}"
    consumer = client.subscribe(topic, "measure")
    # A queue that is full after a second's stall must wait, not refuse what follows.
    producer = client.create_producer(
        topic, batching_enabled=False, block_if_queue_full=True, send_timeout_millis=0
    )
    total, warm = int(rate * seconds), rate
    delays: list[float] = []

    def receive() -> None:
        for _ in range(total + warm):
            message = consumer.receive(10_000)
            delays.append(time.perf_counter() - struct.unpack("d", message.data())[0])
            consumer.acknowledge(message)

    receiver = threading.Thread(target=receive)
    receiver.start()
    next_at = time.perf_counter()
    for _ in range(total + warm):
        next_at += 1 / rate
        if (pause := next_at - time.perf_counter()) > 0:
            time.sleep(pause)
        producer.send_async(struct.pack("d", time.perf_counter()), lambda *_: None)
    producer.flush()
    receiver.join(30)
    client.close()
    measured = sorted(delays[warm:])
    if len(measured) < total:
        raise SystemExit(f"only {len(measured)} of {total} messages arrived")
    return {
        "p50_ms": statistics.median(measured) * 1e3,
        "p99_ms": measured[int(len(measured) * 0.99)] * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["throughput", "latency"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", default="")
    parser.add_argument("--batched", action="store_true")
    parser.add_argument("--unstored", action="store_true", help="a non-persistent topic")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    if args.what == "throughput":
        result = throughput(
            args.url,
            args.admin_url,
            batched=args.batched,
            stored=not args.unstored,
            messages=args.messages,
        )
    else:
        result = latency(args.url, rate=args.rate, seconds=args.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
