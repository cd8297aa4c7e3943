"""Load reports for tests of a recorded history."""

from typing import Any

from counterpoise.load.rows import ReportRows


def report(poll: int, broker: str, bundles: dict[str, float]) -> ReportRows:
    about: dict[str, Any] = {"poll_id": poll, "broker": broker}
    total = sum(bundles.values())
    rows = [about | {"kind": "broker", "msg_throughput_in": total, "fresh": True}]
    rows += [
        about | {"kind": "bundle", "bundle": name, "msg_throughput_in": load, "msg_rate_out": 3.0}
        for name, load in bundles.items()
    ]
    return ReportRows.of([{"poll_id": poll, "kind": "poll"}, *rows])
