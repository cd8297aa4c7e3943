"""Rate limits after PIP-322, usable on their own: nothing here needs more than Python.

`TokenBucket` counts, `DynamicTokenBucket` counts at a rate that is asked for, `RateLimiter` lets
asyncio tasks wait. `Throttle` decides who of many waits for whom under limits at several levels,
`shares` how much of a limit that holds for a cluster is each broker's.
Time is an argument everywhere but in `RateLimiter`.
"""

from __future__ import annotations

from counterpoise.quota.aio import RateLimiter
from counterpoise.quota.bucket import RESOLUTION_NS, SECOND_NS, Bucket, Clock
from counterpoise.quota.flow import Flow
from counterpoise.quota.publish_limit import Level, PublishLimit
from counterpoise.quota.shares import Need, shares
from counterpoise.quota.throttle import Throttle
from counterpoise.quota.token_bucket import DynamicTokenBucket, TokenBucket

__all__ = [
    "RESOLUTION_NS",
    "SECOND_NS",
    "Bucket",
    "Clock",
    "DynamicTokenBucket",
    "Flow",
    "Level",
    "Need",
    "PublishLimit",
    "RateLimiter",
    "Throttle",
    "TokenBucket",
    "shares",
]
