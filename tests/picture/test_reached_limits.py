"""Who is held back and why, in sentences."""

from counterpoise.picture.reached_limits import of_limits, of_metrics

PRODUCER = {
    "name": "p-1",
    "address": "10.0.0.9:5",
    "topic": "persistent://public/default/t",
    "held_entries": 3,
    "held_bytes": 300,
    "seconds": 2.4,
    "times": 1,
}
LIMIT = {
    "level": "TopicPublishRate",
    "subject": "persistent://public/default/t",
    "messages": 10,
    "bytes": 0,
    "producers": [PRODUCER],
}


def test_a_limit_at_which_producers_wait() -> None:
    [found] = of_limits("a:1", [LIMIT, {**LIMIT, "producers": []}])
    assert found.subject == "persistent://public/default/t"
    assert found.why == "publish limit of the topic: 10 msg/s may pass, and more is wanted"
    assert found.waiting == (
        "producer p-1 (10.0.0.9:5) on persistent://public/default/t: 3 entries throttled for 2 s",
    )
    assert found.topics == {"persistent://public/default/t"}


def test_limits_of_bytes_and_of_an_unknown_level() -> None:
    [found] = of_limits("a:1", [{**LIMIT, "level": "New", "bytes": 2_000_000}])
    assert found.why == "New: 10 msg/s and 2.0 MB/s may pass, and more is wanted"


def test_apaches_counters_give_what_happened_since() -> None:
    before, now = {"t1": 5.0, "t2": 7.0}, {"t1": 6.0, "t2": 7.0, "new": 3.0}
    [found] = of_metrics("a:1", now, before)
    assert found.subject == "t1"
    assert found.why.startswith("its publish limit was reached 1 time since the last look")
