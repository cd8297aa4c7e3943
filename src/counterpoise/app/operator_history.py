"""The history in which a verb records an operator's actions."""

from __future__ import annotations

from counterpoise.app.opened_history import history_at
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.tables.location import open_location


def trail_of(uri: str | None, *, may_be_new: bool = False) -> ActionTrail | None:
    """The actions of a history; None without one; raises `UserError` if it does not exist yet."""
    if not uri:
        return None
    return ActionTrail(open_location(uri) if may_be_new else history_at(uri))
