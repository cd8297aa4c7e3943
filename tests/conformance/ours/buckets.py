"""Our token bucket, call for call."""

from typing import Any

from counterpoise.quota import Bucket
from tests.conformance.suite import Answer, Case


class JavaBucket(Bucket):
    """A bucket that is full keeps the part of a token that it has earned besides."""

    FULL_KEEPS_PART = True


def bucket(case: Case) -> Answer:
    now = case["start"]
    made = JavaBucket(
        case["rate"],
        now,
        period_ns=case["period"],
        capacity=case["capacity"],
        initial=case["initial"],
        target=case["target"],
        resolution_ns=case["resolution"],
    )
    answers: list[Any] = []
    for kind, *rest in case["lines"]:
        match kind:
            case "wait":
                now += rest[0]
            case "consume":
                made.balance -= rest[0]
            case "check":
                answers.append(made.take(rest[0], now))
            case "contains":
                answers.append(made.update_balance(now) > 0)
            case "tokens":
                answers.append(made.update_balance(now))
            case "duration":
                answers.append(made.wait_ns(now, rest[0], consistent=False))
    return {"answers": answers, "tokens": made.update_balance(now)}
