"""Ownership by the bundle state channel of PIP-192 (``ServiceUnitStateChannelImpl``).

Every change of a bundle's owner is a record under the bundle's name on one channel that every
broker reads. `transitions` says which record may follow which, so that all who read the same
records believe the same; `handlers` what a broker does when a record concerns it; `owner` what a
lookup is told meanwhile; `orphans` how the leader mends what a dead broker left behind.
"""

from counterpoise.ownership.channel.data import State, StateData
from counterpoise.ownership.channel.handlers import Reader, reactions
from counterpoise.ownership.channel.orders import OrderRefused, assign, split, unload
from counterpoise.ownership.channel.orphans import examine, orphans_of, override
from counterpoise.ownership.channel.owner import owner_of, serves
from counterpoise.ownership.channel.transitions import Storage, refusal

__all__ = [
    "OrderRefused",
    "Reader",
    "State",
    "StateData",
    "Storage",
    "assign",
    "examine",
    "orphans_of",
    "override",
    "owner_of",
    "reactions",
    "refusal",
    "serves",
    "split",
    "unload",
]
