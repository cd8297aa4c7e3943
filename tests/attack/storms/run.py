"""Each storm from beginning to end: a broker of its own, a bystander, and the verdict."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.attack.storms.sky import Sky
from tests.attack.storms.storms import STORMS, Storm
from tests.attack.wire.attackers import Tally
from tests.attack.wire.judges import GAP_MAX_S
from tests.attack.wire.run import Verdict, attacked
from tests.attack.wire.target import Target, broker


def break_over(target: Target, storms: Iterable[Storm], scale: float, gap_max_s: float) -> Verdict:
    """Let storms break over a broker, one after the other."""
    sky = Sky(target.service_url, target.admin_url, scale)
    unserved: list[str] = []

    async def all_of_them() -> Tally:
        tally = Tally()
        for storm in storms:
            try:
                tally.frames += await storm(sky)
            except (OSError, AssertionError) as error:
                unserved.append(f"unserved: {storm.__name__}: {type(error).__name__}: {error}")
            tally.connections += 1
            await sky.clear()
        return tally

    verdict = attacked(target, all_of_them(), gap_max_s)
    verdict.problems.extend(unserved)
    return verdict


def whole(only: Iterable[str] = STORMS) -> Iterator[tuple[str, Verdict]]:
    """Every storm in full, each over a new broker."""
    for name in only:
        with (
            tempfile.TemporaryDirectory(prefix="counterpoise-storm-") as folder,
            broker(Path(folder)) as target,
        ):
            yield name, break_over(target, [STORMS[name]], 1.0, GAP_MAX_S)
