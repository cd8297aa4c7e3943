"""The history in which a verb records an operator's actions."""

from __future__ import annotations

import sys

from counterpoise.app.opened_history import history_at
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.plain_files import names_below


def trail_of(uri: str | None, *, may_be_new: bool = False) -> ActionTrail | None:
    """The actions of a history; None without one; raises `UserError` if it does not exist yet."""
    if not uri:
        return None
    if not may_be_new:
        return ActionTrail(history_at(uri))
    location = open_location(uri)
    if not names_below(location):
        sys.stderr.write(
            f"nothing is kept in {location.address} yet: if a balancer moves bundles of this "
            "cluster, name its history (--history), or it knows nothing of what is done here\n"
        )
    return ActionTrail(location)
