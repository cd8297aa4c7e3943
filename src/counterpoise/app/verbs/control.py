"""``counterpoise control``: pause, resume or stop the balancer that writes a history."""

import argparse
import sys

from counterpoise.app.histories import history_at
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables.control import Control, Wish, write_control


def run(args: argparse.Namespace) -> int:
    """Run ``control``: write the operator's order into the history, where the balancer reads it."""
    wish = Wish.GO if args.wish == "resume" else Wish(args.wish)
    location = history_at(args.history)
    write_control(location, Control(wish, wall_clock_ms(), args.why))
    effects = {Wish.PAUSE: "no further move begins", Wish.GO: "moves go on", Wish.STOP: "it ends"}
    sys.stdout.write(f"{location.address}: {effects[wish]}\n")
    return 0
