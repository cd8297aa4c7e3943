"""Settings that are accepted without effect, and the warnings about them.

A setting without effect must not go unnoticed: brokers log those they were given when they start,
``counterpoise doctor`` reports them, and ``docs/UNREAD.md`` lists all of them.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from counterpoise.app.settings.pulsar import pulsar_settings
from counterpoise.app.settings.table import table, unknown
from counterpoise.names.options import Option

READ_ELSEWHERE = frozenset({"loadBalancerLoadSheddingStrategy", "zookeeperServers"})
"""Settings that are read although no package declares them as an option."""


@cache
def unread() -> Mapping[str, str]:
    """Return the explanation (or "") of every Pulsar setting without effect here, by name."""
    found = {}
    for name in pulsar_settings():
        entry = table().get(name)
        if name in READ_ELSEWHERE or (entry is not None and entry.rooms):
            continue
        found[name] = entry.why if entry is not None else ""
    return MappingProxyType(found)


def set_and_unread(values: Mapping[str, str]) -> list[str]:
    """Return the names of settings that differ from Pulsar's default and have no effect."""
    return sorted(
        name
        for name, value in values.items()
        if name in unread() and pulsar_settings()[name].is_changed(value)
    )


def warning(names: Iterable[str]) -> str:
    """Return a sentence that warns of these settings without effect; empty for none."""
    listed = ", ".join(names)
    return f"accepted, and read by nothing here (docs/UNREAD.md): {listed}" if listed else ""


def warnings(
    values: Mapping[str, str], conf: str | None, own: Iterable[type] = ()
) -> Iterator[str]:
    """Return a broker's warnings at its start: of settings without effect, and of unknown ones.

    ``values`` are the settings, ``conf`` the file that they are from, ``own`` the options classes
    of an operator's own strategies, whose names are known.
    """
    if sentence := warning(set_and_unread(values)):
        yield sentence
    if names := unknown(values, own):
        listed = ", ".join(names)
        yield (
            f"no settings of this version, and left alone: {listed} "
            f"('counterpoise doctor {shlex.quote(conf or 'FILE')}' says what they look like)"
        )


def dynamic_settings() -> list[Option]:
    """Return every setting that may be changed while brokers run, with or without effect here."""
    read = [entry.option for entry in table().values() if entry.option.dynamic]
    known = {each.conf for each in read}
    return read + [
        Option(each.name, each.default, str, "", "", None, None, (), True, False)
        for each in pulsar_settings().values()
        if each.dynamic and each.name not in known
    ]
