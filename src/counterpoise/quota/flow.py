"""One stream of entries that limits apply to: a producer, and what of it is held back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoise.quota.publish_limit import PublishLimit

Held = tuple[int, int, Any]
"""An entry that waits: its messages, its bytes, and whatever its owner wants back."""


class Flow:
    """A producer, as its limits see it: ``owner`` is whoever is told what may pass.

    Its entries keep their order. While ``held`` has any, ``waits_at`` is the limit they wait for.

    ``free_messages`` and ``free_bytes`` are tokens that its limits have set aside for it, so that
    entry after entry can pass for two subtractions, however many limits there are. They are given
    back at the end of the same read (`Throttle.settle`).
    """

    __slots__ = (
        "finished",
        "free_bytes",
        "free_messages",
        "held",
        "held_bytes",
        "lent_bytes",
        "lent_messages",
        "limits",
        "owner",
        "throttled_count",
        "throttled_ns",
        "throttled_since",
        "waits_at",
    )

    def __init__(self, owner: Any, limits: tuple[PublishLimit, ...]) -> None:
        """``limits``: all that its entries have to pass, the narrowest first."""
        self.owner = owner
        self.limits = limits
        self.free_messages = 0
        self.free_bytes = 0
        #: How much was set aside, of which the above is left.
        self.lent_messages = 0
        self.lent_bytes = 0
        self.held: deque[Held] = deque()
        self.held_bytes = 0
        self.waits_at: PublishLimit | None = None
        #: How far its clock has come at each limit where it had to wait.
        self.finished: dict[PublishLimit, int] = {}
        #: How often it was held back, for how long altogether (ns), and since when it is.
        self.throttled_count = 0
        self.throttled_ns = 0
        self.throttled_since: int | None = None

    def passes(self, messages: int, size: int) -> bool:
        """Whether an entry passes on what was set aside; if not, ask `Throttle.offer`."""
        if self.free_messages > 0 and self.free_bytes > 0:
            self.free_messages -= messages
            self.free_bytes -= size
            return True
        return False
