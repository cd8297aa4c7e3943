"""Ownership by the bundle state channel of PIP-192 (``ServiceUnitStateChannelImpl``).

Every change of a bundle's owner is a record under the bundle's name. `transitions` defines which
record may follow which, so that all brokers that read the same records reach the same state.
`next_action` decides what a broker does next, `table` how it does that, and `repairs` how the
leader repairs the records of a dead broker.
"""

from counterpoise.ownership.channel.protocol import StateChannel

__all__ = ["StateChannel"]
