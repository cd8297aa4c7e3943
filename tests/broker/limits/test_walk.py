"""The walk along a throttled SEND in docs/ARCHITECTURE.md, beside what is called for one."""

import re
import sys
from pathlib import Path
from types import FrameType

from counterpoise.broker.limits.rates import Rate, TopicRates
from tests.broker.limits.conftest import LimitedTopics
from tests.quota.jumping import on_jumping_loop, pass_time

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "counterpoise"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### A SEND that a limit throttles\n")[2].partition("\n### ")[0]
WALK = re.findall(r"`([\w/]+\.py): (\w+)`", SECTION)
FILES_MAX = 8
BY_THE_WAY = {"quota/bucket.py", "broker/limits/runner.py", "broker/topic/producer.py"}
"""Counted and asked by the way: the bucket's arithmetic, what the log says, and the meters."""
BY_THE_TEST = {"wire/entry.py"}
"""The test makes its entries by it."""


def test_it_is_short() -> None:
    files = {file for file, _ in WALK if "/" in file}
    assert "broker/limits/runner.py" in files
    assert len(files) <= FILES_MAX, sorted(files)


@on_jumping_loop
async def test_it_is_what_happens(limited: LimitedTopics) -> None:
    producer = await limited.producer(TopicRates(Rate(messages=10)))
    limited.publish(producer, 0)
    await limited.receipts(1)
    called: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            called.append((str(Path(code.co_filename).relative_to(PACKAGE)), code.co_name))

    sys.setprofile(note)
    try:
        limited.publish(producer, 1)
        await pass_time(1)
        assert sys.getprofile() is note, "something else in this thread took the profile away"
    finally:
        sys.setprofile(None)
    # The test's own connection stands for the one of the walk.
    steps = [(file, name) for file, name in WALK if "connection/" not in file and "/" in file]
    assert ("broker/topic/persistent.py", "accept") in called, called
    stored = called.index(("broker/topic/persistent.py", "accept"))
    path = called[: stored + 1]
    at = -1
    for step in steps:
        assert step in path[at + 1 :], f"{step} does not come after {path[max(at, 0)]}"
        at = path.index(step, at + 1)
    strangers = {file for file, _ in path} - {file for file, _ in steps} - BY_THE_WAY
    strangers -= BY_THE_TEST
    assert not strangers, "the walk leaves out what a reader has to open"
