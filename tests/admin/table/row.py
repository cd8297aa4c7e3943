"""A row of the table: a command of ``pulsar-admin``, and what of its answer may differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

TENANT = "acme"
NAMESPACE = f"{TENANT}/app"
TOPIC = f"persistent://{NAMESPACE}/plain"
PARTED = f"persistent://{NAMESPACE}/parted"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the session, which is played in order.

    A line that begins with ``client`` is done by the Python client (`Session` has what it can) and
    is no row of the page. ``{BROKER}``, ``{ADMIN}``, ``{SERVICE}`` and what was kept are filled in.
    """

    line: str
    keep: Mapping[str, str] = field(default_factory=dict)
    """Names for parts of the answer, found by these patterns, to be used in later lines."""

    @property
    def command(self) -> tuple[str, str]:
        """The group and the command; ("client", …) for what is none."""
        group, command, *_ = self.line.split(maxsplit=2)
        return group, command


def rows(lines: str) -> list[Row]:
    """A row for each line that is not empty."""
    return [Row(" ".join(each.split())) for each in lines.splitlines() if each.strip()]


def policy(
    group: str,
    name: str,
    value: str,
    where: str,
    *,
    get: Iterable[str] = ("",),
    remove: bool = True,
) -> list[Row]:
    """Asks for a policy, sets it, asks again, removes it and asks a last time."""
    ask = [f"{group} get-{name} {option} {where}" for option in get]
    lines = [*ask, f"{group} set-{name} {value} {where}", *ask]
    if remove:
        lines += [f"{group} remove-{name} {where}", *ask]
    return rows("\n".join(lines))
