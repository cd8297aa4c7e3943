"""Ownership by the bundle state channel of PIP-192 (``ServiceUnitStateChannelImpl``).

Every change of a bundle's owner is a record under the bundle's name. `transitions` says which
record may follow which, so that all who read the same records believe the same; `duties` what a
record obliges a broker to do; `table` how a broker does it; `orphans` how the leader mends what a
dead broker left behind.
"""

from counterpoise.ownership.channel.protocol import StateChannel

__all__ = ["StateChannel"]
