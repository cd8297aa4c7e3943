"""Ownership by the bundle state channel of PIP-192 (``ServiceUnitStateChannelImpl``).

Every change of a bundle's owner is a record under the bundle's name. `transitions` says which
record may follow which, so that all brokers that read the same records believe the same;
`next_action` what a broker has to do next; `table` how it does that; `repairs` how the leader
repairs what a dead broker left behind.
"""

from counterpoise.ownership.channel.protocol import StateChannel

__all__ = ["StateChannel"]
