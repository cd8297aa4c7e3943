"""The weight of each resource in a broker's usage."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from counterpoise.names.options import option


@dataclass(frozen=True)
class ResourceWeights:
    """The weight of each resource; 0 leaves it out. A broker's usage is its largest weighted
    percentage.

    Heap memory counts only under the extensible manager. Both bandwidth weights have two spellings
    in Pulsar; `inbound` and `outbound` choose between them as Pulsar does.
    """

    cpu: float = option(1.0, "loadBalancerCPUResourceWeight", low=0.0, dynamic=True)
    """How much CPU counts in a broker's usage."""
    memory: float = option(
        0.0, "loadBalancerMemoryResourceWeight", low=0.0, dynamic=True, deprecated=True
    )
    """How much heap memory counts; garbage collection makes it noise, so 0."""
    direct_memory: float = option(
        0.0, "loadBalancerDirectMemoryResourceWeight", low=0.0, dynamic=True
    )
    """How much direct memory counts; pooled buffers make it noise, so 0."""
    bandwidth_in: float = option(
        1.0, "loadBalancerBandwidthInResourceWeight", low=0.0, dynamic=True
    )
    """How much inbound network counts in a broker's usage."""
    bandwidth_out: float = option(
        1.0, "loadBalancerBandwidthOutResourceWeight", low=0.0, dynamic=True
    )
    """How much outbound network counts in a broker's usage."""
    legacy_bandwidth_in: float = option(
        1.0, "loadBalancerBandwithInResourceWeight", low=0.0, dynamic=True
    )
    """The old misspelling of the inbound weight; heeded while the right spelling says 1.0."""
    legacy_bandwidth_out: float = option(
        1.0, "loadBalancerBandwithOutResourceWeight", low=0.0, dynamic=True
    )
    """The old misspelling of the outbound weight; heeded while the right spelling says 1.0."""

    @property
    def inbound(self) -> float:
        """The weight of inbound bandwidth.

        Quirk kept from ``ServiceConfiguration``: a 1.0 at ``loadBalancerBandwidthIn…`` cannot
        override the value of the misspelt ``loadBalancerBandwithIn…``.
        """
        return self.bandwidth_in if self.bandwidth_in != 1.0 else self.legacy_bandwidth_in

    @property
    def outbound(self) -> float:
        """The weight of outbound bandwidth.

        Quirk kept from ``ServiceConfiguration``, as for `inbound`: a 1.0 at
        ``loadBalancerBandwidthOut…`` cannot override the value of the misspelt
        ``loadBalancerBandwithOut…``.
        """
        return self.bandwidth_out if self.bandwidth_out != 1.0 else self.legacy_bandwidth_out

    @cached_property
    def modular(self) -> npt.NDArray[np.float64]:
        """The weights in the order of ``usage.RESOURCES``, heap memory left out."""
        return self._in_order(math.nan)

    @cached_property
    def extensible(self) -> npt.NDArray[np.float64]:
        """The weights in the order of ``usage.RESOURCES``, heap memory with its own."""
        return self._in_order(self.memory)

    def _in_order(self, memory: float) -> npt.NDArray[np.float64]:
        weights = np.array([self.cpu, memory, self.direct_memory, self.inbound, self.outbound])
        weights.flags.writeable = False  # it is cached and shared
        return weights


DEFAULT_WEIGHTS = ResourceWeights()
