"""The shedding strategies by name; a new one is registered here."""

from typing import Any, Final

from counterpoise.decide.registry import Registry
from counterpoise.decide.shedding.avg import AvgShedder
from counterpoise.decide.shedding.counterpoise.strategy import Counterpoise
from counterpoise.decide.shedding.overload import OverloadShedder
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.decide.shedding.threshold import ThresholdShedder
from counterpoise.decide.shedding.transfer import TransferShedder
from counterpoise.decide.shedding.uniform import UniformLoadShedder

_MODULAR = "org.apache.pulsar.broker.loadbalance.impl."
_EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.scheduler."

SHEDDERS: Final[Registry[Shedder[Any, Any, Any]]] = Registry(
    "loadBalancerLoadSheddingStrategy",
    Shedder,
    {
        _MODULAR + "OverloadShedder": OverloadShedder(),
        _MODULAR + "ThresholdShedder": ThresholdShedder(),
        _MODULAR + "UniformLoadShedder": UniformLoadShedder(),
        _MODULAR + "AvgShedder": AvgShedder(),
        _EXTENSIBLE + "TransferShedder": TransferShedder(),
        Counterpoise.name: Counterpoise(),
    },
)
