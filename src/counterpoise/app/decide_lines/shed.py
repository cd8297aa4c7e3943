"""One line of ``counterpoise decide shed``: load data in, decisions and reasons out."""

from random import Random
from typing import Any

from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.load.fields import read_integer, read_object, read_texts


def shed_line(
    value: object, shedder: Shedder[Any, Any, Any], options: Any, memory: Any
) -> tuple[dict[str, Any], Any]:
    """Let a shedder decide on the load data of one parsed line of ``decide shed``.

    Returns its plan as JSON, and what it remembers for the next line (``memory``).
    ``activeBrokers`` in a line makes the shedder forget all other brokers
    (``onActiveBrokersChange``). Raises ``LoadDataError`` naming the field that cannot be read.
    """
    line = read_object(value, "line")
    view = shedder.view.from_load_data(line)
    if "activeBrokers" in line:
        memory = shedder.forget(memory, read_texts(line["activeBrokers"], "activeBrokers"))
    now = read_integer(line["now"], "now")
    plan = shedder.plan(view, memory, options, now, Random(0))
    return plan.to_json(), plan.memory
