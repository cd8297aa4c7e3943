"""Topics with their producers and subscriptions, as connections and the admin API use them."""

from counterpoise.wire.values import InitialPosition as InitialPosition
from counterpoise.wire.values import SubscriptionType as SubscriptionType
