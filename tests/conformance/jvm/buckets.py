"""Pulsar's own token buckets on a clock that a case sets."""

from typing import Any

from jpype import JClass, JImplements, JOverride

from tests.conformance.jvm.java import Java, Json

BUCKET = "org.apache.pulsar.broker.qos.AsyncTokenBucket"


@JImplements("org.apache.pulsar.broker.qos.MonotonicClock", deferred=True)
class _Clock:
    def __init__(self, now: int) -> None:
        self.now = now

    @JOverride
    def getTickNanos(self) -> int:
        return self.now


class Buckets:
    """AsyncTokenBucket, call for call; after each the answer, and the balance where it is asked."""

    def __init__(self, java: Java) -> None:
        del java

    def answer(self, case: Json) -> Json:
        clock = _Clock(case["start"])
        bucket = self._bucket(case, clock)
        answers: list[Any] = []
        for kind, *rest in case["lines"]:
            match kind:
                case "wait":
                    clock.now += rest[0]
                case "consume":
                    bucket.consumeTokens(rest[0])
                case "check":
                    answers.append(bool(bucket.consumeTokensAndCheckIfContainsTokens(rest[0])))
                case "contains":
                    answers.append(bool(bucket.containsTokens()))
                case "tokens":
                    answers.append(int(bucket.getTokens()))
                case "duration" if rest[0] is None:
                    answers.append(int(bucket.calculateThrottlingDuration()))
                case "duration":
                    answers.append(int(bucket.calculateThrottlingDuration(rest[0])))
        return {"answers": answers, "tokens": int(bucket.getTokens())}

    def _bucket(self, case: Json, clock: _Clock) -> Any:
        builder = JClass(BUCKET).builder().rate(case["rate"]).ratePeriodNanos(case["period"])
        builder = builder.capacity(case["capacity"]).initialTokens(case["initial"])
        if case["target"] is not None:
            builder = builder.targetAmountOfTokensAfterThrottling(case["target"])
        return builder.addTokensResolutionNanos(case["resolution"]).clock(clock).build()
