"""The options classes of all shedders, for readers of settings that load no strategy."""

from typing import Any, Final

from counterpoise.decide.shedding.counterpoise.options import CounterpoiseOptions
from counterpoise.decide.shedding.options import (
    AvgOptions,
    OverloadOptions,
    ThresholdOptions,
    TransferOptions,
    UniformOptions,
)

OPTION_CLASSES: Final[tuple[type[Any], ...]] = (
    AvgOptions,
    CounterpoiseOptions,
    OverloadOptions,
    ThresholdOptions,
    TransferOptions,
    UniformOptions,
)
