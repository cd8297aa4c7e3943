"""The publish gap that moving a bundle causes, on any Pulsar cluster, with the official client."""

import argparse
import contextlib
import json
import statistics
import threading
import time
import uuid
from functools import partial
from itertools import pairwise

import pulsar
from tests.waiting import answer_within

from bench._admin import RefusedError, call
from bench._client import connect

RATE = 1_000  # publishes a second while bundles move
# Before the first unload, and after the first acknowledgement that follows one.
BEGIN_SECONDS, SETTLE_SECONDS = 2.0, 1.5
ONCE_SECONDS = 0.3  # instead of both where a bundle is unloaded once, for no figure to be quoted
QUIET_SECONDS = 20  # without a message, after everything was acknowledged: the rest is lost


class Traffic:
    """One producer at a fixed rate and one consumer, and what became of every message."""

    def __init__(self, url: str, topic: str) -> None:
        self._client = connect(url)
        self._producer = self._client.create_producer(
            topic, batching_enabled=False, send_timeout_millis=0
        )
        self._consumer = self._client.subscribe(topic, "gap")
        self._stop = threading.Event()
        self._all_answered = threading.Event()
        self.acknowledged_at: list[float] = []
        self._acknowledged: set[int] = set()
        self.sent = 0
        self.answered = 0
        self.received: list[int] = []
        self._threads = [threading.Thread(target=w) for w in (self._publish, self._receive)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        next_at = time.perf_counter()
        while not self._stop.is_set():
            self._producer.send_async(b"%d" % self.sent, partial(self._on_ack, self.sent))
            self.sent += 1
            next_at += 1 / RATE
            if (pause := next_at - time.perf_counter()) > 0:
                time.sleep(pause)

    def _on_ack(self, number: int, result: pulsar.Result, _: pulsar.MessageId) -> None:
        # Anything else is the client's refusal: its queue of 1,000 is full after a second's gap.
        if result == pulsar.Result.Ok:
            self.acknowledged_at.append(time.perf_counter())
            self._acknowledged.add(number)
        self.answered += 1

    def _receive(self) -> None:
        seen: set[int] = set()
        last_at = time.monotonic()
        while not (self._all_answered.is_set() and seen >= self._acknowledged):
            try:
                message = self._consumer.receive(500)
            except pulsar.Timeout:
                if self._all_answered.is_set() and time.monotonic() > last_at + QUIET_SECONDS:
                    return
                continue
            last_at = time.monotonic()
            number = int(message.data())
            seen.add(number)
            self.received.append(number)
            self._consumer.acknowledge(message)

    def wait_for_acknowledgement(self, seconds: float = 60) -> None:
        """Return when one more message than now is acknowledged."""
        before = len(self.acknowledged_at)
        if not answer_within(lambda: len(self.acknowledged_at) > before, seconds, 0.01):
            raise SystemExit(f"nothing was acknowledged for {seconds:.0f} s after an unload")

    def finish(self) -> dict[str, int]:
        self._stop.set()
        self._threads[0].join()
        self._producer.flush()
        # It may return before the callback of the last message has run. Were that message counted
        # only after the consumer has stopped, it would pass for lost.
        if not answer_within(lambda: self.answered == self.sent, 60, 0.01):
            raise SystemExit(f"{self.sent - self.answered} of {self.sent} messages got no answer")
        self._all_answered.set()
        self._threads[1].join()
        self._client.close()
        firsts = list(dict.fromkeys(self.received))
        return {
            "sent": self.sent,
            "acknowledged": len(self._acknowledged),
            "lost": len(self._acknowledged.difference(firsts)),
            "redelivered": len(self.received) - len(firsts),
            "out_of_order": sum(b < a for a, b in pairwise(firsts)),
        }


def measure(service_url: str, admin_url: str, rounds: int) -> dict[str, float]:
    """Unload the topic's bundle ``rounds`` times under load; gaps in milliseconds."""
    tenant = f"{admin_url}/admin/v2/tenants/gap"
    with contextlib.suppress(RefusedError):
        clusters = call("GET", f"{admin_url}/admin/v2/clusters")
        call("PUT", tenant, {"allowedClusters": clusters, "adminRoles": []})
    with contextlib.suppress(RefusedError):
        call("PUT", f"{admin_url}/admin/v2/namespaces/gap/ns", {"bundles": {"numBundles": 4}})
    name = f"gap-{uuid.uuid4().hex[:8]}"
    traffic = Traffic(service_url, f"persistent://gap/ns/{name}")
    bundle = call("GET", f"{admin_url}/lookup/v2/topic/persistent/gap/ns/{name}/bundle")
    time.sleep(BEGIN_SECONDS if rounds > 1 else ONCE_SECONDS)
    gaps = []
    for _ in range(rounds):
        started = time.perf_counter()
        call("PUT", f"{admin_url}/admin/v2/namespaces/gap/ns/{bundle}/unload")
        traffic.wait_for_acknowledgement()
        time.sleep(SETTLE_SECONDS if rounds > 1 else ONCE_SECONDS)
        times = [t for t in list(traffic.acknowledged_at) if t >= started - 0.5]
        gaps.append(max(b - a for a, b in pairwise(times)) * 1e3)
    gaps.sort()
    ends = {"gap_min_ms": gaps[0], "gap_median_ms": statistics.median(gaps), "gap_max_ms": gaps[-1]}
    return {**ends, **traffic.finish()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    print(json.dumps(measure(args.url, args.admin_url, args.rounds)))


if __name__ == "__main__":
    main()
