"""Whose files count: what a former holder writes late is nobody's.

A lease cannot call a write back that has left: a process is stopped, or a network holds a request
up, after the lease was looked at and before the object is there. It may arrive minutes after
another has taken the history over, and no store of objects can be relied on to refuse it. So it is
the readers who do not take it for the history's:

* who holds a lease writes under names of its own: `<key>.<token>.parquet`;
* before it reads anything to go on from, it puts a record of its reign beside the others,
  `reigns/<token>.json`: from which poll on what is there is its own, and which files behind that
  poll it found and goes on with. What another wrote of these polls and comes to light later does
  not count, whenever it arrives;
* a record names the reigns before it, and the claims that it took for dead. So one that arrives
  late, too, is known for what it is.

Who asks for `<key>.parquet` gets the file that counts, the last writer's where there are several. A
file without a token was written before the first reign, or where a lock is all that is needed.
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from counterpoise.pipeline.history.names import EVER, STATES, TABLES, span

DIRECTORY = "reigns"
TOKEN_DIGITS = 12

POLLED = ("reports", "ownership")
"""Tables that get a file at each poll; the others have one of each round, or more."""

_SIGNED = re.compile(r"^([^.]+)\.([0-9a-f]{12})(\.[a-z]+)$")


@dataclass(frozen=True, slots=True)
class Reign:
    """From where on a history is one holder's."""

    token: str
    """Its name in the files' names; empty of those who wrote before there were any."""
    polled: int = 0
    """The first poll that is its own."""
    rounds: int = 0
    """The first poll of which a round is its own, except for what it found there."""
    states: int = 0
    """The first poll of which a state is its own."""
    found: tuple[str, ...] = ()
    """Files of rounds behind that poll that it found and goes on with."""

    def begins(self, table: str) -> int:
        """The first poll of a table that is its own."""
        if table == STATES:
            return self.states
        return self.polled if table in POLLED else self.rounds


FIRST = Reign("")


@dataclass(frozen=True)
class Lineage:
    """The reigns that led to the newest, oldest first."""

    reigns: tuple[Reign, ...] = (FIRST,)
    dead: frozenset[str] = field(default_factory=frozenset)
    """Tokens of those who had claimed the history, and were gone when another took it."""

    @property
    def head(self) -> Reign:
        """The newest reign."""
        return self.reigns[-1]

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """The place of each token."""
        return {reign.token: rank for rank, reign in enumerate(self.reigns)}

    def counts(self, name: str) -> bool:
        """Whether a file does, by the name under which it is stored."""
        own, token = unsigned(name)
        extent = extent_of(own)
        if extent is None:
            return True
        rank = self.ranks.get(token)
        if rank is None:
            return False
        table, last = extent
        if last < self._ends[rank].begins(table):
            return True
        # Who came later has nothing of an earlier one behind its own beginning, but what it found.
        return all(
            last < reign.begins(table) or name in reign.found for reign in self.reigns[rank + 1 :]
        )

    @cached_property
    def _ends(self) -> Sequence[Reign]:
        """For each reign the first polls that are any later one's."""
        ends = [Reign("", EVER, EVER, EVER)]
        for reign in reversed(self.reigns[1:]):
            end = ends[-1]
            polled, rounds = min(reign.polled, end.polled), min(reign.rounds, end.rounds)
            ends.append(Reign("", polled, rounds, min(reign.states, end.states)))
        return ends[::-1]

    def passes_to(self, reign: Reign, dead: Iterable[str]) -> "Lineage":
        """The lineage once another has come."""
        return Lineage((*self.reigns, reign), self.dead | frozenset(dead))

    def to_json(self) -> bytes:
        """As it is stored."""
        reigns = [[r.token, r.polled, r.rounds, r.states, list(r.found)] for r in self.reigns]
        told = {"reigns": reigns, "dead": sorted(self.dead)}
        return json.dumps({**told, "sum": _checksum(told)}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Lineage":
        """Raises `ValueError`, `KeyError` or `TypeError`."""
        told = json.loads(data)
        # A digit that was turned over would take files from the history.
        if "sum" in told and told.pop("sum") != _checksum(told):
            raise ValueError("its checksum is another")
        reigns = tuple(
            Reign(str(token), int(polled), int(rounds), int(states), tuple(found))
            for token, polled, rounds, states, found in told["reigns"]
        )
        return cls(reigns, frozenset(told["dead"]))


def _checksum(told: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(told, sort_keys=True).encode())


def newest(lineages: Sequence[Lineage]) -> Lineage:
    """The lineage that holds, of all whose records are there.

    It is that of whom no other record names: neither as one that came before, nor as dead.
    """
    heads = [
        one
        for one in lineages
        if not any(
            one.head.token in other.dead or one.head.token in other.ranks
            for other in lineages
            if other is not one
        )
    ]
    return max(heads or [Lineage()], key=lambda one: (len(one.reigns), one.head.token))


class View:
    """One reader's or writer's: which file stands for a name."""

    def __init__(self, token: str = "", lineage: Lineage | None = None) -> None:
        """`token` is a writer's, in its lineage; a reader looks for the newest one again."""
        self.token = token
        self.fixed = lineage is not None
        self.lineage = lineage or Lineage()
        self._elsewhere = _found(self.lineage)
        """Names whose file is not the newest reign's."""

    def take(self, lineage: Lineage) -> None:
        """See by another lineage from now on."""
        if lineage != self.lineage:
            self.lineage, self._elsewhere = lineage, _found(lineage)

    def counted(self, directory: str, listed: Iterable[str]) -> list[str]:
        """The names that files in a directory stand for, sorted; of those files that count."""
        if not self.lineage.head.token:
            return sorted(listed)
        best: dict[str, tuple[int, str]] = {}
        for base in listed:
            own, token = unsigned(base)
            rank = self.lineage.ranks.get(token, -1)
            if self.lineage.counts(f"{directory}/{base}") and rank >= best.get(own, (-1, ""))[0]:
                best[own] = (rank, base)
        for own, (_, base) in best.items():
            if base == signed(own, self.lineage.head.token):
                self._elsewhere.pop(f"{directory}/{own}", None)
            else:
                self._elsewhere[f"{directory}/{own}"] = f"{directory}/{base}"
        return sorted(best)

    def is_known(self, name: str) -> bool:
        """Whether the file of a name is known without a look at its directory."""
        extent = extent_of(name)
        newest = self.lineage.head
        return (
            extent is None or name in self._elsewhere or not newest.token
            or extent[1] >= newest.begins(extent[0])
        )  # fmt: skip

    def may_have_changed(self, name: str) -> bool:
        """Whether another file may stand for a name by now."""
        return extent_of(name) is not None and (not self.fixed or name in self._elsewhere)

    def file(self, name: str) -> str:
        """The file to read for a name, as far as that is known."""
        if extent_of(name) is None:
            return name
        return self._elsewhere.get(name) or signed(name, self.lineage.head.token)

    def file_to_write(self, name: str) -> str:
        """The file to write for a name."""
        return name if extent_of(name) is None else signed(name, self.token)

    def written(self, name: str) -> str:
        """Know that the file for a name is ours now; gives the one that was, and is to go."""
        return self._elsewhere.pop(name, "") if self.fixed else ""


def unsigned(name: str) -> tuple[str, str]:
    """A file's name without its writer's token, and the token."""
    directory, slash, base = name.rpartition("/")
    found = _SIGNED.match(base)
    if found is None:
        return name, ""
    return f"{directory}{slash}{found.group(1)}{found.group(3)}", found.group(2)


def signed(name: str, token: str) -> str:
    """A name with its writer's token."""
    if not token:
        return name
    stem, dot, kind = name.rpartition(".")
    return f"{stem}.{token}{dot}{kind}"


def extent_of(name: str) -> tuple[str, int] | None:
    """The table of a file and the last poll it is of; None for what anybody may write."""
    table, _, rest = name.partition("/")
    if table == STATES:
        poll_id = rest.partition("/")[0]
        return (table, int(poll_id)) if poll_id.isdecimal() else None
    if table not in TABLES or (found := span(name)) is None:
        return None
    return table, found[1]


def record_of(token: str) -> str:
    """The file of a holder's record."""
    return f"{DIRECTORY}/{token}.json"


def _found(lineage: Lineage) -> dict[str, str]:
    return {unsigned(name)[0]: name for name in lineage.head.found if lineage.counts(name)}
