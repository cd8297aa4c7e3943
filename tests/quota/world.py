"""A broker's worth of limits and producers without a broker: time passes when a test says so."""

from dataclasses import dataclass, field
from fractions import Fraction

from counterpoise.quota import SECOND_NS, Flow, Level, PublishLimit, Throttle


@dataclass
class World:
    """Runs a `Throttle`: offers what producers send, sounds every alarm when its time has come."""

    now: int = 0
    throttle: Throttle = field(default_factory=Throttle)
    limits: list[PublishLimit] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    #: Of each flow what it sent and what passed, by number; and what passed each limit, and when.
    sent: dict[Flow, int] = field(default_factory=dict)
    passed: dict[Flow, list[int]] = field(default_factory=dict)
    through: list[tuple[int, Flow, int, int]] = field(default_factory=list)

    def limit(self, level: Level, name: str, messages: int = 0, size: int = 0) -> PublishLimit:
        limit = PublishLimit(level, name)
        self.limits.append(limit)
        self.throttle.set_rates(limit, messages, size, self.now)
        return limit

    def flow(self, *limits: PublishLimit) -> Flow:
        flow = Flow(None, limits)
        self.flows.append(flow)
        self.sent[flow] = 0
        self.passed[flow] = []
        return flow

    def offer(self, flow: Flow, messages: int = 1, size: int = 100) -> bool:
        number = self.sent[flow]
        self.sent[flow] += 1
        passes = flow.passes(messages, size)
        passes = passes or self.throttle.offer(flow, messages, size, number, self.now)
        if passes:
            self._pass(flow, messages, size, number)
        return passes

    def _pass(self, flow: Flow, messages: int, size: int, number: int) -> None:
        self.passed[flow].append(number)
        self.through.append((self.now, flow, messages, size))

    def regroup(self, flow: Flow, *limits: PublishLimit) -> None:
        for each, (messages, size, number) in self.throttle.set_limits(flow, limits, self.now):
            self._pass(each, messages, size, number)

    def end(self, flow: Flow) -> None:
        self.throttle.end(flow, self.now)
        self.flows.remove(flow)

    def run_until(self, then: int) -> None:
        """Let time pass; every alarm is heard."""
        self.throttle.settle()
        while True:
            due = [each for each in self.limits if each.resume_at is not None]
            first = min(due, key=lambda each: each.resume_at or 0, default=None)
            if first is None or first.resume_at is None or first.resume_at > then:
                break
            self.now = max(self.now, first.resume_at)
            self.ring(first)
        self.now = max(self.now, then)

    def ring(self, limit: PublishLimit) -> None:
        self.throttle.alarms.clear()
        for flow, (messages, size, number) in self.throttle.release(limit, self.now):
            self._pass(flow, messages, size, number)

    def judge(self) -> None:
        """Find anything that is paused for no reason, or that nobody will let go."""
        self.throttle.settle()
        for flow in self.flows:
            assert bool(flow.held) == (flow.waits_at is not None)
            assert flow.held_bytes == sum(size for _, size, _ in flow.held)
            assert (flow.throttled_since is not None) == bool(flow.held)
            numbers = [number for _, _, number in flow.held]
            # Nothing is lost, doubled or out of order.
            assert self.passed[flow] + numbers == list(range(self.sent[flow]))
            if flow.waits_at is not None:
                self._judge_wait(flow, flow.waits_at)
        for limit in self.limits:
            assert (limit.resume_at is not None) == bool(limit.waiting), f"{limit}: idle alarm"
            assert all(flow.waits_at is limit for flow in limit.waiting)
            if not limit.waiting:
                assert limit.throttled_since is None
                # Closed without anybody waiting must mean empty.
                assert limit.open or not limit.has_tokens(self.now) or limit.admits(self.now)

    def _judge_wait(self, flow: Flow, limit: PublishLimit) -> None:
        assert limit in flow.limits, f"waits at {limit}, which does not apply to it"
        assert flow in limit.waiting
        assert limit.resume_at is not None, "nobody will let it go"
        # By fractions of its own, how long the emptier bucket takes to what a pause should bring.
        longest = Fraction(0)
        for bucket in (limit.messages, limit.bytes):
            if bucket is not None:
                target = max(1, bucket.rate * 4 // 1000)
                missing = target - bucket.settle(self.now, consistent=True)
                longest = max(longest, Fraction(missing * SECOND_NS, bucket.rate))
        assert limit.resume_at - self.now < longest + 1, "waits longer than its limit asks for"
