"""One measurement is one sample, however often it is read, and what is no sign of a new one."""

import numpy as np
import pytest

from counterpoise.load.freshness import Taken, take
from counterpoise.load.measured import Measured, bundle_columns

MINUTE = 60_000


def seen(reported_ms: int, rate: float) -> Measured:
    rates = {
        "msg_rate_in": [rate],
        "msg_rate_out": [0.0],
        "msg_throughput_in": [rate],
        "msg_throughput_out": [0.0],
    }
    counts = {name: [1] for name in ("topics", "producers", "consumers", "cache_size")}
    return Measured.of({}, bundle_columns(["a/b/0x0_0x1"], rates, counts), reported_ms)


STORIES = {
    "the same report": ([(100, 5.0, 0), (100, 5.0, 5), (100, 5.0, 900)], "new old old"),
    "a new report with the same traffic": ([(100, 5.0, 0), (200, 5.0, 5)], "new new"),
    "a new report of nothing": ([(100, 0.0, 0), (200, 0.0, 5), (200, 0.0, 9)], "new new old"),
    # The modular manager does not raise lastUpdate for a change of less than a tenth.
    "figures without a new time": ([(100, 5.0, 0), (100, 5.1, 5), (100, 5.1, 9)], "new new old"),
    "figures first, their time later": (
        [(100, 5.0, 0), (100, 6.0, 5), (200, 6.0, 9), (300, 6.0, 14)],
        "new new old new",
    ),
    "time first, figures later": ([(100, 5.0, 0), (200, 5.0, 5), (200, 6.0, 9)], "new new new"),
    "no time, traffic": ([(0, 5.0, 0), (0, 5.0, 2 * MINUTE), (0, 6.0, 2 * MINUTE)], "new old new"),
    "figures without any time, then with one": (
        [(0, 5.0, 0), (0, 6.0, 5), (200, 6.0, 9), (300, 6.0, 14)],
        "new new new new",
    ),
    "no time, nothing flows": (
        [(0, 0.0, 0), (0, 0.0, MINUTE - 1), (0, 0.0, MINUTE), (0, 0.0, MINUTE + 1)],
        "new old new old",
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_is_new(name: str) -> None:
    polls, expected = STORIES[name]
    taken: Taken | None = None
    found = []
    for reported_ms, rate, at_ms in polls:
        taken, fresh = take(taken, seen(reported_ms, rate), at_ms, MINUTE)
        found.append("new" if fresh else "old")
    assert " ".join(found) == expected


def test_the_order_of_the_bundles_is_no_news() -> None:
    both = bundle_columns(
        ["a/b/0x0_0x1", "a/b/0x1_0x2"],
        {
            name: [1.0, 2.0]
            for name in ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
        },
        {name: [1, 2] for name in ("topics", "producers", "consumers", "cache_size")},
    )
    one = Measured.of({}, both, 0)
    turned = {name: np.flip(column) for name, column in both.items()}
    assert Measured.of({}, turned, 0).figures == one.figures
    swapped = {**both, "msg_rate_in": np.flip(both["msg_rate_in"])}
    assert Measured.of({}, swapped, 0).figures != one.figures
