"""Our token buckets, call for call."""

from typing import Any

from counterpoise.quota import DynamicTokenBucket, TokenBucket
from tests.conformance.suite import Answer, Case


def bucket(case: Case) -> Answer:
    now, rate = case["start"], case["rate"]
    made: TokenBucket
    if case["dynamic"]:
        made = DynamicTokenBucket(
            lambda: rate,
            period_ns=lambda: case["period"],
            resolution_ns=case["resolution"],
            clock=lambda: now,
        )
    else:
        made = TokenBucket(
            rate,
            period_ns=case["period"],
            capacity=case["capacity"],
            initial=case["initial"],
            target=case["target"],
            resolution_ns=case["resolution"],
            clock=lambda: now,
        )
    answers: list[Any] = []
    for kind, *rest in case["lines"]:
        match kind:
            case "wait":
                now += rest[0]
            case "rate":
                rate = rest[0]
            case "consume":
                made.consume(rest[0])
            case "check":
                answers.append(made.consume_and_check(rest[0]))
            case "contains":
                answers.append(made.contains())
            case "tokens":
                answers.append(made.tokens())
            case "duration":
                answers.append(made.throttling_ns(rest[0], consistent=False))
    return {"answers": answers, "tokens": made.tokens()}
