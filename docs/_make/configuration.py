"""The reference of settings: every option that something here reads, by the room that reads it."""

from __future__ import annotations

from counterpoise.app.settings.table import Entry, table

HEAD = """\
# Settings

Every setting that something here reads, under its `broker.conf` name. Give them in a file
(`--conf broker.conf`), one by one (`--set NAME=VALUE`, which wins), or, where *dynamic* says yes,
while brokers run (`pulsar-admin brokers update-dynamic-config`). Settings of Apache Pulsar that
are accepted and do nothing are in [a list of their own](../UNREAD.md);
`counterpoise doctor --conf FILE` says which of them a file has, and where its settings contradict
each other.
"""
ROOMS = {
    "broker": "Brokers",
    "decide.shedding": "Shedding strategies",
    "decide.placement": "Placement strategies",
    "decide.filters": "Which brokers may take a bundle",
    "decide.splitting": "Splitting bundles",
    "pipeline": "Rounds of the balancer",
}


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for room, title in ROOMS.items():
        rows = [entry for entry in table().values() if room in entry.rooms]
        rows.sort(key=lambda entry: entry.option.conf.lower())
        parts += [f"## {title}\n", *map(_row, rows)]
    return "\n".join(parts)


def _row(entry: Entry) -> str:
    option = entry.option
    value = _value(option.default)
    more = [option.range_text]
    if option.unit:
        more.append(f"in {option.unit}")
    if option.dynamic:
        more.append("dynamic")
    if option.deprecated:
        more.append("deprecated")
    default = f" (default {value})" if value else ""
    return f"`{option.conf}`{default}\n: {entry.why} *({'; '.join(more)})*\n"


def _value(value: object) -> str:
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`"
    return f"`{value}`"
