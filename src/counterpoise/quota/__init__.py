"""Rate limits after PIP-322, usable on their own: nothing here needs more than Python.

`Bucket` counts tokens, `RateLimit` says when messages or bytes exceed a rate, and `Throttle` lets
flows wait for limits at several levels in fair turns. `shares` divides a limit that holds for a
cluster among its brokers. `RateLimiter` lets asyncio tasks wait; it alone knows a clock.
"""

from counterpoise.quota.aio import RateLimiter
from counterpoise.quota.bucket import RESOLUTION_NS, SECOND_NS, Bucket
from counterpoise.quota.limit import NO_LIMIT, LimitLevel, RateLimit
from counterpoise.quota.shares import GroupUsage, shares
from counterpoise.quota.throttle import LimitedFlow, PublishFlow, Throttle

__all__ = [
    "NO_LIMIT",
    "RESOLUTION_NS",
    "SECOND_NS",
    "Bucket",
    "GroupUsage",
    "LimitLevel",
    "LimitedFlow",
    "PublishFlow",
    "RateLimit",
    "RateLimiter",
    "Throttle",
    "shares",
]
