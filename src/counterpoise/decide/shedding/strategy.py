"""The contract of a shedding strategy, and how to write one.

A strategy decides which bundles leave which brokers. It is an object without state: what it
remembers between calls is its *memory*, a frozen value that each call takes and returns. So a plan
can be repeated, explained, replayed and passed on to the next leader.

A strategy of your own is any object with these members;
``tests/decide/shedding/test_own_strategy.py`` has a complete one in thirty lines (a deviation
shedder, for which Pulsar had the abstract class ``DeviationShedder``). Give its name as
``module:Class`` wherever a strategy's name is asked for.

One more member is optional: a shedder that names destinations itself and sets
``obeys_rules = True`` finds in ``view.rules`` (`ClusterView`) where isolation policies,
anti-affinity and topic limits let each bundle go. Otherwise a move to where they do not let it go
is refused.
"""

from random import Random
from typing import Any, Protocol, TypeVar, runtime_checkable

from counterpoise.decide.memory import Memory
from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.registry import Registered

V_contra = TypeVar("V_contra", contravariant=True)
M = TypeVar("M", bound=Memory)
C = TypeVar("C")


@runtime_checkable
class Shedder(Registered[M, C], Protocol[V_contra, M, C]):
    """The interface of shedding strategies, which decide which bundles leave which brokers.

    ``V_contra`` is the class of view that it reads, ``M`` of its memory, ``C`` of its options.
    """

    @property
    def view(self) -> type[Any]:
        """The class of view it reads: ``ClusterView``, or ``LoadStoreView`` (PIP-192)."""

    def plan(
        self, view: V_contra, memory: M, options: C, now_ms: int, rng: Random
    ) -> StrategyPlan[M]:
        """Decide which bundles leave which brokers. Equal arguments give equal plans: no clock,
        no I/O, no randomness except ``rng``.
        """
