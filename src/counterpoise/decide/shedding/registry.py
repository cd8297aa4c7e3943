"""Find a shedding strategy by name."""

import importlib
from types import MappingProxyType
from typing import Any, Final

from counterpoise.decide.shedding.avg import AvgShedder
from counterpoise.decide.shedding.overload import OverloadShedder
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.decide.shedding.threshold import ThresholdShedder
from counterpoise.decide.shedding.transfer import TransferShedder
from counterpoise.decide.shedding.uniform import UniformLoadShedder
from counterpoise.names.options import ConfigError

AnyShedder = Shedder[Any, Any, Any]

_SETTING = "loadBalancerLoadSheddingStrategy"
_MODULAR = "org.apache.pulsar.broker.loadbalance.impl."
_EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.scheduler."

_BUILT_IN: tuple[tuple[str, AnyShedder], ...] = (
    (_MODULAR + "OverloadShedder", OverloadShedder()),
    (_MODULAR + "ThresholdShedder", ThresholdShedder()),
    (_MODULAR + "UniformLoadShedder", UniformLoadShedder()),
    (_MODULAR + "AvgShedder", AvgShedder()),
    (_EXTENSIBLE + "TransferShedder", TransferShedder()),
)

SHEDDERS: Final = MappingProxyType(
    {name: made for java, made in _BUILT_IN for name in (made.name, java)}
)
"""The strategies by short name and by the name of Pulsar's class."""


def find_shedder(name: str) -> AnyShedder:
    """The strategy of that name: a short name, Pulsar's class, or ``module:Class`` of one's own.

    Raises ``ConfigError`` when there is none, or when the class is not a :class:`Shedder`.
    """
    if name in SHEDDERS:
        return SHEDDERS[name]
    module, mark, attribute = name.partition(":")
    if not mark:
        known = ", ".join(made.name for _, made in _BUILT_IN)
        raise ConfigError(
            _SETTING, f"no strategy is called {name!r}; there are {known}, or module:Class"
        )
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(_SETTING, f"{name!r} cannot be loaded: {error}") from None
    if not isinstance(made, Shedder):
        raise ConfigError(_SETTING, f"{name!r} is not a Shedder (see decide/shedding/strategy.py)")
    return made
