"""A broker's worth of limits and producers without a broker: time passes when a test says so."""

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from counterpoise.quota import SECOND_NS, LimitLevel, PublishFlow, RateLimit, Throttle


class TestFlow(PublishFlow):
    """A producer whose entries are numbers."""

    __test__ = False

    def __init__(self, world: "World", limits: tuple[RateLimit, ...]) -> None:
        super().__init__(world.throttle, limits)
        self.world = world

    @property
    def label(self) -> str:
        return "a producer"

    def release(self, item: tuple[int, int, int], size: int) -> None:
        assert item[1] == size
        if item[2] in self.world.unpublishable:
            raise OSError(f"entry {item[2]} cannot be published")
        self.world.pass_entry(self, *item)


@dataclass
class World:
    """Runs a `Throttle`: offers what producers send, and releases each limit at its time."""

    now: int = 0
    throttle: Throttle = field(default_factory=Throttle)
    limits: list[RateLimit] = field(default_factory=list)
    flows: list[TestFlow] = field(default_factory=list)
    sent: dict[TestFlow, int] = field(default_factory=dict)
    """Of each flow what it sent and what passed, by number; and what passed each limit, and when.
    """
    passed: dict[TestFlow, list[int]] = field(default_factory=dict)
    through: list[tuple[int, TestFlow, int, int]] = field(default_factory=list)
    unpublishable: set[int] = field(default_factory=set)
    """Numbers of entries whose publishing fails once they are released."""
    counted: dict[RateLimit, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """Messages and bytes that passed each limit."""

    def limit(self, level: LimitLevel, name: str, messages: int = 0, size: int = 0) -> RateLimit:
        limit = RateLimit(level, name)
        self.limits.append(limit)
        self.throttle.set_rate(limit, messages, size, self.now)
        return limit

    def flow(self, *limits: RateLimit) -> TestFlow:
        flow = TestFlow(self, limits)
        self.flows.append(flow)
        self.sent[flow] = 0
        self.passed[flow] = []
        return flow

    def offer(self, flow: TestFlow, messages: int = 1, size: int = 100) -> bool:
        entry = messages, size, self.sent[flow]
        self.sent[flow] += 1
        passes = flow.passes(messages, size)
        passes = passes or self.throttle.offer(flow, messages, size, entry, self.now)
        if passes:
            self.pass_entry(flow, *entry)
        return passes

    def pass_entry(self, flow: TestFlow, messages: int, size: int, number: int) -> None:
        self.passed[flow].append(number)
        self.through.append((self.now, flow, messages, size))
        for limit in flow.limits:
            self.counted[limit][0] += messages
            self.counted[limit][1] += size

    def regroup(self, flow: TestFlow, *limits: RateLimit) -> None:
        self.throttle.set_limits(flow, limits, self.now)

    def end(self, flow: TestFlow) -> None:
        self.throttle.end(flow, self.now)
        self.flows.remove(flow)

    def run_until(self, then: int) -> None:
        """Let time pass; every limit is released at its time."""
        self.throttle.return_reserved()
        while True:
            due = [each for each in self.limits if each.resume_at is not None]
            first = min(due, key=lambda each: each.resume_at or 0, default=None)
            if first is None or first.resume_at is None or first.resume_at > then:
                break
            self.now = max(self.now, first.resume_at)
            self.ring(first)
        self.now = max(self.now, then)

    def ring(self, limit: RateLimit) -> None:
        self.throttle.alarms.clear()
        self.throttle.release(limit, self.now)
        assert limit in self.throttle.alarms, "no timer is set for its next turn"

    def judge(self) -> None:
        """Find whatever waits for no reason, or is never released."""
        self.throttle.return_reserved()
        for flow in self.flows:
            assert bool(flow.entries) == (flow.waits_at is not None)
            assert flow.throttled_bytes == sum(size for _, size, _ in flow.entries)
            assert (flow.throttled_since is not None) == bool(flow.entries)
            assert flow.free_messages == flow.free_bytes == 0, "set aside after the read"
            numbers = [item[2] for _, _, item in flow.entries]
            # Nothing is lost, doubled or out of order.
            assert self.passed[flow] + numbers == list(range(self.sent[flow]))
            if flow.waits_at is not None:
                self._judge_wait(flow, flow.waits_at)
        for limit in self.limits:
            assert (limit.resume_at is not None) == bool(limit.waiting), f"{limit}: idle timer"
            assert all(flow.waits_at is limit for flow in limit.waiting)
            passed = [limit.passed_messages, limit.passed_bytes]
            assert passed == self.counted[limit], f"{limit}: counted what did not pass"
            if not limit.waiting:
                assert limit.throttled_since is None
                # Closed without a waiting flow must mean empty, open must mean not empty.
                assert limit.admits(self.now) == limit.has_tokens(self.now)

    def _judge_wait(self, flow: TestFlow, limit: RateLimit) -> None:
        assert limit in flow.limits, f"waits at {limit}, which does not apply to it"
        assert flow in limit.waiting
        assert limit.resume_at is not None, "never released"
        # By fractions of its own, how long the emptier bucket takes to what a pause should bring.
        longest = Fraction(0)
        for bucket in (limit.messages, limit.bytes):
            if bucket is not None:
                target = max(1, bucket.rate * 4 // 1000)
                missing = target - bucket.update_balance(self.now, consistent=True)
                longest = max(longest, Fraction(missing * SECOND_NS, bucket.rate))
        assert limit.resume_at - self.now < longest + 1, "waits longer than its limit asks for"
