"""A consumer by frames of what `_frames_consume` does not read: delayed messages, compacted topics,
and backlogs that another process has left. Prints one JSON object.
"""

import argparse
import json
import time
import uuid

from bench._admin import call
from bench._frames_consume import ConsumingConnection, fill
from bench._processes import cpu_seconds, memory_mb

WITHIN_S = 240
TICK_S = 1.0
"""Brokers deliver so much early unless set otherwise: `delayedDeliveryTickTimeMillis`."""


def left(args: argparse.Namespace) -> dict[str, float]:
    """Leave a backlog on a topic, and a subscription that keeps it when others have read it."""
    ConsumingConnection(args.url, args.topic, "exclusive", 1, name="kept").close()
    fill(args.url, args.topic, args.messages, args.batch, 0)
    return {}


def read(args: argparse.Namespace) -> dict[str, float]:
    """Read a backlog that was left: messages a second."""
    consumer = ConsumingConnection(args.url, args.topic, "exclusive", 1, name=args.subscription)
    seconds = consumer.read(args.messages // args.batch, args.batch, "cumulative")
    consumer.close()
    return {"messages_per_second": args.messages / seconds}


def delayed(args: argparse.Namespace) -> dict[str, float]:
    """Messages that are due at one moment, or a tick of the broker's before: how many a second come
    from the first one on, what memory and processor time each took.
    """
    topic = _new_topic()
    consumer = ConsumingConnection(args.url, topic, "shared", 1)
    used, memory = cpu_seconds(args.pid), memory_mb(args.pid)
    due = time.time() + args.delay_s
    fill(args.url, topic, args.messages, 1, 0, deliver_at_ms=round(1000 * due))
    if time.time() > due - TICK_S:
        raise SystemExit(f"publishing took longer than {args.delay_s} s")
    kept = memory_mb(args.pid) - memory
    took = consumer.read(args.messages, 1, "individual") - consumer.first_after_s
    used = cpu_seconds(args.pid) - used
    consumer.close()
    return {
        "messages_per_second": args.messages / took,
        "bytes": 1e6 * kept / args.messages,
        "cpu_us": 1e6 * used / args.messages,
    }


def compacted(args: argparse.Namespace) -> dict[str, float]:
    """Each key twice: seconds until the topic is compacted, and messages a second of the rest."""
    topic = _new_topic()
    keys = args.messages // 2
    fill(args.url, topic, args.messages, 1, keys)
    url = f"{args.admin_url}/admin/v2/{topic.replace('://', '/')}/compaction"
    began = time.perf_counter()
    call("PUT", url)
    while (status := call("GET", url)["status"]) == "RUNNING":
        if time.perf_counter() > began + WITHIN_S:
            raise SystemExit(f"{topic} was not compacted within {WITHIN_S} s")
        time.sleep(0.05)
    if status != "SUCCESS":
        raise SystemExit(f"the compaction of {topic} ended with {status}")
    took = time.perf_counter() - began
    consumer = ConsumingConnection(args.url, topic, "exclusive", 1, compacted=True)
    seconds = consumer.read(keys, 1, "cumulative")
    consumer.close()
    return {"compaction_s": took, "messages_per_second": keys / seconds}


def _new_topic() -> str:
    return f"persistent://public/default/read-{uuid.uuid4().hex[:8]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    whats = {each.__name__: each for each in (left, read, delayed, compacted)}
    parser.add_argument("what", choices=sorted(whats))
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--pid", type=int, default=0, help="the broker's, or its parent's")
    parser.add_argument("--topic", default="")
    parser.add_argument("--subscription", default="s")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--delay-s", type=float, default=10)
    args = parser.parse_args()
    print(json.dumps(whats[args.what](args)))


if __name__ == "__main__":
    main()
