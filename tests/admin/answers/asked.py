"""What is asked: lines of method, path and body, in the order in which they are played.

``requests.txt`` has those with their values; ``requests_of_topics.txt`` what is asked of topics in
every state. In a path, ``T`` is ``/admin/v2/tenants``, and so on (`PLACES`). A line that begins
with ``-`` makes what the others are about; its answer is not compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACES = {
    "T": "/admin/v2/tenants",
    "N": "/admin/v2/namespaces",
    "P": "/admin/v2/persistent",
    "NP": "/admin/v2/non-persistent",
    "C": "/admin/v2/clusters",
    "G": "/admin/v2/resourcegroups",
    "Q": "/admin/v2/resource-quotas",
    "S": "/admin/v2/schemas",
    "B": "/admin/v2/brokers",
    "L": "/lookup/v2",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and whether its answer is compared, and with its value."""

    line: str
    method: str
    path: str
    body: bytes | None
    compared: bool
    with_value: bool


def asked() -> list[Asked]:
    """Everything that is asked, in its order."""
    lines = [each for each in _lines("requests.txt") if not each.startswith("#")]
    return [
        *(_read(each, with_value=True) for each in lines),
        *(_read(each, with_value=False) for each in _of_topics()),
    ]


def _read(line: str, *, with_value: bool) -> Asked:
    method, path, *body = line.removeprefix("-").split(maxsplit=2)
    place, slash, more = path.partition("/")
    return Asked(
        line,
        method,
        PLACES[place] + slash + more,
        body[0].encode() if body else None,
        not line.startswith("-"),
        with_value,
    )


def _of_topics() -> Iterator[str]:
    """Each verb of topics, asked of a topic in every state."""
    yield '-PUT T/m {"allowedClusters":["standalone"]}'
    yield '-PUT N/m/n {"bundles":{"numBundles":1}}'
    for number, each in enumerate([*_lines("requests_of_topics.txt"), "DELETE "]):
        method, _, what = each.partition(" ")
        # What only looks finds what the first of its kind has made.
        own = 0 if method == "GET" else number
        plain, parted, passing = f"plain{own}", f"parted{own}", f"passing{own}"
        if own == number:
            yield f"-PUT P/m/n/{plain}"
            yield f"-PUT P/m/n/{parted}/partitions 2"
            yield f"-PUT NP/m/n/{passing}"
            yield f"-PUT P/m/n/{plain}/subscription/s"
            yield f"-PUT P/m/n/{parted}/subscription/s"
        for topic in (
            f"P/m/none/x{number}",
            f"P/m/n/none{number}",
            f"P/m/n/{parted}-partition-5",
            f"NP/m/n/none{number}",
            f"NP/m/n/{passing}",
            f"P/m/n/{parted}",
            f"P/m/n/{parted}-partition-1",
            f"P/m/n/{plain}",
        ):
            yield f"{method} {topic}{'/' if what else ''}{what}"


def _lines(name: str) -> list[str]:
    text = Path(__file__).with_name(name).read_text()
    return [each for each in text.splitlines() if each]
