"""What a verb prints: rows from the largest on, and work that outlives the reader of its output."""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from counterpoise.app.listing import list_rows


@dataclass(frozen=True)
class Row:
    name: str
    load: int


@pytest.mark.parametrize(("sort", "names"), [("load", ["b", "c", "a"]), ("name", ["a", "b", "c"])])
def test_figures_are_listed_from_the_largest_and_names_in_their_order(
    sort: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("a", 1), Row("b", 30), Row("c", 2)]
    list_rows(rows, argparse.Namespace(sort=sort, json=True), "none")
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == names


def test_work_goes_on_though_the_reader_of_its_output_is_gone() -> None:
    script = (
        "import sys\n"
        "from counterpoise.app.output import say, surviving_closed_output\n"
        "sys.stdin.readline()\n"
        "write = surviving_closed_output(say)\n"
        "for number in range(3): write('x' * 100_000)\n"
        "sys.stderr.write('done')\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        process.stdin.write("go\n")
        process.stdin.close()
        assert process.stderr.read() == "done"
    assert process.returncode == 0
