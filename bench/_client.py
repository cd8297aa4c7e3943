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

import pulsar

PAYLOAD_BYTES = 100


def connect(url: str) -> pulsar.Client:
    return pulsar.Client(
        url,
        operation_timeout_seconds=30,
        io_threads=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def throughput(url: str, *, batched: bool, messages: int) -> dict[str, float]:
    """Publish ``messages`` as fast as they are acknowledged."""
    client = connect(url)
    producer = client.create_producer(
        f"persistent://public/default/bench-{uuid.uuid4().hex[:8]}",
        batching_enabled=batched,
        block_if_queue_full=True,
        max_pending_messages=20_000 if batched else 5_000,
        batching_max_messages=1_000,
        batching_max_publish_delay_ms=5,
        send_timeout_millis=0,
    )
    payload = b"x" * PAYLOAD_BYTES
    failed: list[pulsar.Result] = []
    done = threading.Event()
    acknowledged = 0

    def on_ack(result: pulsar.Result, _: pulsar.MessageId) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if result != pulsar.Result.Ok:
            failed.append(result)
        if acknowledged == messages:
            done.set()

    for _ in range(200):  # the topic is loaded and the paths are warm before the clock starts
        producer.send(payload) if not batched else producer.send_async(payload, lambda *_: None)
    producer.flush()
    started = time.perf_counter()
    for _ in range(messages):
        producer.send_async(payload, on_ack)
    producer.flush()
    if not done.wait(60):
        raise SystemExit(f"{messages - acknowledged} of {messages} messages were not acknowledged")
    seconds = time.perf_counter() - started
    client.close()
    return {"messages_per_second": messages / seconds, "failed": len(failed)}


def latency(url: str, *, rate: int, seconds: float) -> dict[str, float]:
    """End to end, publish to receive, at a fixed rate of unbatched messages; milliseconds."""
    client = connect(url)
    topic = f"persistent://public/default/latency-{uuid.uuid4().hex[:8]}"
    consumer = client.subscribe(topic, "measure")
    producer = client.create_producer(topic, batching_enabled=False, send_timeout_millis=0)
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
    parser.add_argument("--batched", action="store_true")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    if args.what == "throughput":
        result = throughput(args.url, batched=args.batched, messages=args.messages)
    else:
        result = latency(args.url, rate=args.rate, seconds=args.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
