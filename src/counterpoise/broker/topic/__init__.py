"""Topics, their producers and subscriptions: what a connection drives and the admin API shows."""

from counterpoise.wire.values import InitialPosition as InitialPosition
from counterpoise.wire.values import SubscriptionType as SubscriptionType
