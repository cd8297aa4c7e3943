"""The runner of machines, alone."""

import gc
import warnings

from counterpoise.broker.bundles.runner import Runner
from counterpoise.ownership.events import Command, Prepare


async def test_closing_before_a_preparation_began_leaves_nothing_unawaited() -> None:
    begun = []

    async def prepare(key: str) -> None:
        begun.append(key)

    async def ask(key: str, question: Command) -> object:
        raise AssertionError("nothing is asked here")

    runner = Runner[str, int](
        new=lambda _: 0,
        advance=lambda state, _: (state + 1, (Prepare(),)),
        forgettable=lambda _: False,
        execute=ask,
        changed=lambda *_: None,
        prepare=prepare,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runner.feed("bundle", "a hand-over to us")
        runner.close()
        gc.collect()
    assert [str(each.message) for each in caught] == []
    assert begun == []
