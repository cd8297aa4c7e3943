"""A broker's use of its scarcest resource: the figure, and which resource it is."""

import numpy as np

from counterpoise.decide.weights import ResourceWeights
from counterpoise.load.rates import Floats
from counterpoise.load.usage import RESOURCES
from counterpoise.load.view import ClusterView


def modular_weights(weights: ResourceWeights) -> Floats:
    """The weights in column order as ``LocalBrokerData`` applies them: heap memory left out."""
    return np.array([weights.cpu, np.nan, weights.direct_memory, weights.inbound, weights.outbound])


def extensible_weights(weights: ResourceWeights) -> Floats:
    """The weights in column order as ``BrokerLoadData`` applies them: all five resources."""
    return np.array(
        [weights.cpu, weights.memory, weights.direct_memory, weights.inbound, weights.outbound]
    )


def scarcest(view: ClusterView, broker: int, weights: Floats) -> str:
    """The resource that decides a broker's weighted use, by the load report's name for it."""
    with np.errstate(all="ignore"):
        products = view.broker.usage[broker].astype(np.float64) * weights
    return RESOURCES[int(np.argmax(np.nan_to_num(products, nan=-np.inf)))]
