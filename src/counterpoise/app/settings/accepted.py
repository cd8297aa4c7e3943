"""Settings that are accepted without effect, and the warnings about them.

A setting that is accepted and changes nothing is worse than one that is refused. Brokers log those
they were given at their start, ``doctor`` reports them, and ``docs/UNREAD.md`` lists them.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from counterpoise.app.settings.pulsar import pulsar_settings
from counterpoise.app.settings.table import table, unknown
from counterpoise.names.options import Option

READ_ELSEWHERE = frozenset({"loadBalancerLoadSheddingStrategy", "zookeeperServers"})
"""Names that are read without being declared by a room."""


@cache
def unread() -> Mapping[str, str]:
    """By name, every Pulsar setting without effect here, with an explanation (may be empty)."""
    found = {}
    for name in pulsar_settings():
        entry = table().get(name)
        if name in READ_ELSEWHERE or (entry is not None and entry.rooms):
            continue
        found[name] = entry.why if entry is not None else ""
    return MappingProxyType(found)


def set_and_unread(values: Mapping[str, str]) -> list[str]:
    """The given settings that differ from Pulsar's default and have no effect."""
    return sorted(
        name
        for name, value in values.items()
        if name in unread() and pulsar_settings()[name].is_changed(value)
    )


def warning(names: Iterable[str]) -> str:
    """The sentence that warns of settings without effect; empty without any."""
    listed = ", ".join(names)
    return f"accepted, and read by nothing here (docs/UNREAD.md): {listed}" if listed else ""


def warnings(
    values: Mapping[str, str], conf: str | None, own: Iterable[type] = ()
) -> Iterator[str]:
    """The sentences that warn at a start of settings that have no effect or are unknown.

    ``conf`` is the file with the settings, ``own`` the options of an operator's own strategy.
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
    """Every setting that may be changed while brokers run, with or without effect here."""
    read = [entry.option for entry in table().values() if entry.option.dynamic]
    known = {each.conf for each in read}
    return read + [
        Option(each.name, each.default, str, "", "", None, None, (), True, False)
        for each in pulsar_settings().values()
        if each.dynamic and each.name not in known
    ]
