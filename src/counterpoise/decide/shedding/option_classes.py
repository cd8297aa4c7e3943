"""The options classes of all shedders, for readers of settings that load no strategy."""

from typing import Any, Final

from counterpoise.decide.shedding import options
from counterpoise.decide.shedding.counterpoise.options import CounterpoiseOptions

OPTION_CLASSES: Final[tuple[type[Any], ...]] = (
    options.AvgOptions,
    CounterpoiseOptions,
    options.OverloadOptions,
    options.ThresholdOptions,
    options.TransferOptions,
    options.UniformOptions,
)
