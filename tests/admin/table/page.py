"""``docs/PULSAR_ADMIN.md``, made of the session and of what is known to differ."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.admin.table.compare import keyed
from tests.admin.table.known import DIFFERS, NOT_HERE
from tests.admin.table.record import GROUPS
from tests.admin.table.row import Row
from tests.admin.table.session import SESSION

PAGE = Path(__file__).parents[3] / "docs" / "PULSAR_ADMIN.md"
UNCOMPARED = "runs; not yet compared with what Pulsar prints"
HEAD = """\
# Which commands of `pulsar-admin` work

Every command of these groups, as the unchanged tool of Apache Pulsar 4.0.8 has them. *Works* says
that a test runs it here and compares what it prints, field by field, with what it printed on a real
Apache Pulsar 4.0.7 in the same session of {lines} commands, refusals included; only times, rates,
sizes, addresses and the numbers of ledgers are free. A second remark says where the answers differ.
`make admin-table` plays that session on both and writes down what Pulsar says.

That a policy is kept does not say that it has an effect: [UNREAD.md](UNREAD.md) lists what is
stored and read by nothing, which a broker's log says when it is set. Permissions hold where
`authorizationEnabled` is set.

{counts}
"""


def page(recorded: Mapping[str, Any]) -> str:
    """The page's text, by what was recorded of Pulsar."""
    parts = []
    commands = recorded["commands"]
    asked = {line for line, _ in keyed(recorded["answers"])}
    counts = dict.fromkeys(("works", "works, but differs", "runs", "does not apply"), 0)
    for group in GROUPS:
        parts.append(f"## {group}\n\n| command | |\n| --- | --- |")
        for command in sorted(commands[group]):
            name = f"{group} {command}"
            why = NOT_HERE.get(name)
            if why is not None:
                counts["does not apply"] += 1
                parts.append(f"| `{command}` | does not apply: {why} |")
                continue
            if not all(row.line in asked for row in rows_of(name)):
                counts["runs"] += 1
                parts.append(f"| `{command}` | {UNCOMPARED} |")
                continue
            remarks = sorted({each for row in rows_of(name) for each in _remarks(row)})
            counts["works, but differs" if remarks else "works"] += 1
            parts.append(f"| `{command}` | {'; '.join(['works', *remarks])} |")
        parts.append("")
    lines = sum(row.command[0] != "client" for row in SESSION)
    counted = (
        f"Of {sum(counts.values())} commands {counts['works']} print the same, "
        f"{counts['works, but differs']} differ somewhere, {counts['does not apply']} do not apply"
        + (f", {counts['runs']} are not compared yet." if counts["runs"] else ".")
    )
    return "\n".join([HEAD.format(lines=lines, counts=counted), *parts])


def rows_of(name: str) -> list[Row]:
    """The rows of the session that are about a command."""
    return [row for row in SESSION if " ".join(row.command) == name]


def _remarks(row: Row) -> set[str]:
    return set(DIFFERS.get(row.line, {}).values())
