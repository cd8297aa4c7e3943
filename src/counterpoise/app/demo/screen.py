"""The demo's output: a live table in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from counterpoise.app.demo.load import Tally
from counterpoise.app.demo.watch import DemoRecord, Moment
from counterpoise.app.output import commanded
from counterpoise.names.bundle import range_of

if TYPE_CHECKING:
    from rich.live import Live

LINES_KEPT = 14
PLAIN_EVERY = 5
"""Without a terminal, one sample in this many is shown."""


class Screen(Protocol):
    """Where the demo shows its progress."""

    def say(self, sentence: str) -> None:
        """Show a sentence about what has happened."""

    def show(self, record: DemoRecord, tally: Tally) -> None:
        """Show the present loads, imbalance and message counts."""


@contextmanager
def open_screen() -> Iterator[Screen]:
    """The demo's screen: a live table in a terminal, otherwise plain lines."""
    if not sys.stdout.isatty():
        yield PlainScreen()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=commanded(sys.stdout))
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield LiveScreen(live)


def decided(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Write a decision, a row of the journal, as one sentence.

    `names` has the brokers' short names by id.
    """
    sentence = (
        f"decide: {range_of(row['bundle'])} from {row['source']} to {row['destination']}, "
        f"because {row['sentence']}; {row['placement']}"
    )
    return renamed(sentence, names)


def done(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Write the outcome of a move, a row of the journal, as one sentence.

    `names` has the brokers' short names by id.
    """
    took = (row["ended_at_ms"] - row["started_at_ms"]) / 1000
    sentence = f"{row['status']}: {range_of(row['bundle'])}, owner {row['owner'] or 'none'}, "
    return renamed(f"{sentence}verified after {took:.2f} s {row['error']}".rstrip(), names)


def renamed(sentence: str, names: Mapping[str, str]) -> str:
    """Replace each broker's id in a sentence by its short name."""
    for broker, name in names.items():
        sentence = sentence.replace(broker, name)
    return sentence


def bar(fraction: float, width: int = 30) -> str:
    """Draw a bar of `width` characters of which `fraction`, from 0 to 1, is filled."""
    full = round(width * min(1.0, max(0.0, fraction)))
    return "█" * full + "·" * (width - full)


def counted(tally: Tally) -> str:
    """Write the message counts as one line."""
    return (
        f"sent {tally.sent:,}  acknowledged {tally.acknowledged:,}  received {tally.received:,}  "
        f"duplicated {tally.duplicated:,}"
    )


class PlainScreen:
    """A screen that prints one line after another, for output that is no terminal."""

    def __init__(self) -> None:
        self._shown = 0

    def say(self, sentence: str) -> None:
        """Print a line."""
        sys.stdout.write(sentence + "\n")
        sys.stdout.flush()

    def show(self, record: DemoRecord, tally: Tally) -> None:
        """Print the present loads, imbalance and counts in one line, at one call in a few."""
        self._shown += 1
        if record.moments and self._shown % PLAIN_EVERY == 1:
            moment = record.moments[-1]
            loads = "  ".join(
                f"broker-{number} {load.throughput / 1e6:.2f} MB/s {load.bundles} bundles"
                for number, load in enumerate(moment.loads.values(), 1)
            )
            self.say(f"{moment.at_s:5.0f} s  {loads}  imbalance {record.now:.2f}  {counted(tally)}")


class LiveScreen:
    """A screen for terminals: a table that is redrawn, with the last sentences under it."""

    def __init__(self, live: "Live") -> None:
        self._sentences: list[str] = []
        self._live = live
        self._table: Any = ""

    def say(self, sentence: str) -> None:
        """Show a sentence under the table."""
        self._sentences = [*self._sentences, sentence][-LINES_KEPT:]
        self._render()

    def show(self, record: DemoRecord, tally: Tally) -> None:
        """Redraw the table with the present loads and message counts."""
        if record.moments:
            self._table = _table(record.moments[-1], record, tally)
            self._render()

    def _render(self) -> None:
        from rich.console import Group
        from rich.text import Text

        self._live.update(Group(self._table, *(Text(line) for line in self._sentences)))


def _table(moment: Moment, record: DemoRecord, tally: Tally) -> Any:
    from rich.table import Table

    table = Table(
        title=f"{moment.at_s:.0f} s under load · imbalance {record.now:.2f} "
        f"(before: {record.before:.2f}) · {record.moves} bundles moved",
        caption=counted(tally),
        expand=False,
    )
    for heading in ("broker", "network", "used", "MB/s", "bundles"):
        table.add_column(heading, justify="left" if heading in ("broker", "network") else "right")
    for number, load in enumerate(moment.loads.values(), 1):
        table.add_row(
            f"broker-{number}",
            bar(load.usage),
            f"{load.usage:.0%}",
            f"{load.throughput / 1e6:.2f}",
            str(load.bundles),
        )
    return table
