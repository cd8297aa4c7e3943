"""The order in which ``pytest -n`` gives the files of tests to its workers, which wait for work.

By itself pytest-xdist begins with the files of most tests, so that a file with one test of two
minutes comes last, and one worker ends long after the others. Here what takes long comes first.
"""

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

ON_ONE_SPARK: Final = (
    "tests/pipeline/gold/test_examples.py",
    "tests/pipeline/gold/test_rollup.py",
    "tests/pipeline/backtest/test_run.py",
    "tests/pipeline/test_public_source.py",
    "tests/pipeline/test_spark.py",
)
"""Tests of the fixture ``spark``: one worker runs them one after the other, in the same JVM."""
LONG: Final = (
    *ON_ONE_SPARK,
    "tests/docs/",
    "tests/admin/table/",
    "tests/pipeline/",
    "tests/bench/",
    "tests/deploy/",
    "tests/real/",
    "tests/chaos/",
    "tests/test_additions.py",
    "tests/app/",
    "tests/client/",
    "tests/attack/",
    "tests/console/",
    "tests/conformance/",
    "tests/admin/",
    "tests/metadata/",
    "tests/broker/",
    "tests/sim/",
)
"""What takes long, the longest first, by how the paths begin; all else is short."""


def first_long(item: pytest.Item) -> int:
    """A key by which tests are sorted."""
    places = (number for number, path in enumerate(LONG) if item.nodeid.startswith(path))
    return next(places, len(LONG))


class LongFilesFirst(LoadFileScheduling):
    """Whole files, in the order in which they are collected."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return "on one Spark" if nodeid.startswith(ON_ONE_SPARK) else super()._split_scope(nodeid)
