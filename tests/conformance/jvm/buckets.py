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


@JImplements("java.util.function.LongSupplier", deferred=True)
class _Number:
    def __init__(self, value: int) -> None:
        self.value = value

    @JOverride
    def getAsLong(self) -> int:
        return self.value


class Buckets:
    """AsyncTokenBucket, call for call; after each the answer, and the balance where it is asked."""

    def __init__(self, java: Java) -> None:
        del java

    def answer(self, case: Json) -> Json:
        clock, rate = _Clock(case["start"]), _Number(case["rate"])
        bucket = self._dynamic(case, clock, rate) if case["dynamic"] else self._final(case, clock)
        answers: list[Any] = []
        for kind, *rest in case["lines"]:
            match kind:
                case "wait":
                    clock.now += rest[0]
                case "rate":
                    rate.value = rest[0]
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

    def _final(self, case: Json, clock: _Clock) -> Any:
        builder = JClass(BUCKET).builder().rate(case["rate"]).ratePeriodNanos(case["period"])
        builder = builder.capacity(case["capacity"]).initialTokens(case["initial"])
        if case["target"] is not None:
            builder = builder.targetAmountOfTokensAfterThrottling(case["target"])
        return builder.addTokensResolutionNanos(case["resolution"]).clock(clock).build()

    def _dynamic(self, case: Json, clock: _Clock, rate: _Number) -> Any:
        builder = JClass(BUCKET).builderForDynamicRate().rateFunction(rate)
        builder = builder.ratePeriodNanosFunction(_Number(case["period"]))
        return builder.addTokensResolutionNanos(case["resolution"]).clock(clock).build()
