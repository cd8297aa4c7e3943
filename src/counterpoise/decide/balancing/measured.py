"""What a move rests on, as a sentence: averages with their age, beside what is measured now."""

import numpy as np

from counterpoise.decide.balancing.moves import Move
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import RATES
from counterpoise.names.units import bytes_text

THROUGHPUT = tuple(name for name in RATES if "throughput" in name)


def basis_of(move: Move, state: FoldState) -> str:
    """The bundle's average and its age, and what both brokers reported last."""
    averages, now_ms = state.averages, newest_poll(state)
    found = np.flatnonzero(averages["bundle"] == move.bundle)
    said = []
    if len(found):
        row = int(found[0])
        carried = sum(float(averages[f"short_{name}"][row]) for name in THROUGHPUT)
        age_s = max(0, now_ms - int(averages["seen_at_ms"][row])) / 1000
        count = int(averages["short_samples"][row])
        reports = "its only report" if count == 1 else f"its last {count} reports"
        said.append(f"it carries {bytes_text(carried)} on average of {reports}, {age_s:.0f} s old")
    said += [_reported(broker, state, now_ms) for broker in (move.source, move.destination)]
    return "; ".join(filter(None, said))


def _reported(broker: str, state: FoldState, now_ms: int) -> str:
    brokers = state.brokers
    found = np.flatnonzero(brokers["broker"] == broker)
    if not len(found):
        return ""
    row = int(found[0])
    carried = sum(float(brokers[name][row]) for name in THROUGHPUT)
    age_s = max(0, now_ms - int(brokers["report_poll"][row])) / 1000
    return f"{broker} reported {bytes_text(carried)} {age_s:.0f} s ago"
