"""Checks of the file itself: bad values, misspelled, repeated, deprecated and ignored names."""

from collections.abc import Iterator
from difflib import get_close_matches

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity, Shown, finding
from counterpoise.app.doctor.setup import Setup
from counterpoise.app.settings.accepted import set_and_unread
from counterpoise.app.settings.table import broker_conf_names, table, unknown

_IGNORED = ("topicPublisherThrottlingTickTimeMillis", "brokerPublisherThrottlingTickTimeMillis")
_ALIKE = 0.88


def bad_values(setup: Setup) -> Iterator[Diagnosis]:
    """Find values that cannot be read or are out of range."""
    for error in setup.errors:
        default = table()[error.name].option.default
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        yield finding(
            "bad-value",
            setup.written(error.name),
            {error.name: shown},
            name=error.name,
            problem=error.problem,
        )


def misspelled(setup: Setup) -> Iterator[Diagnosis]:
    """Find names that Pulsar does not know, but that resemble one of its settings."""
    for name, value in setup.properties.values.items():
        if name in table() or name in broker_conf_names():
            continue
        alike = get_close_matches(name, sorted(broker_conf_names()), n=1, cutoff=_ALIKE)
        if alike:
            yield finding(
                "misspelled-name", setup.written(name), {alike[0]: value}, name=name, alike=alike[0]
            )


def repeated(setup: Setup) -> Iterator[Diagnosis]:
    """Find names that are set twice."""
    for name, lines in setup.properties.repeated.items():
        where = ", ".join(map(str, lines))
        yield finding(
            "repeated-name",
            {name: Shown(setup.properties.values[name], lines[-1])},
            {name: setup.properties.values[name]},
            severity=Severity.PROBLEM if name in table() else Severity.ADVICE,
            name=name,
            where=where,
        )


def deprecated(setup: Setup) -> Iterator[Diagnosis]:
    """Find settings that have no effect in Pulsar any more."""
    for name, entry in table().items():
        if not setup.changed(name):
            continue
        if entry.option.deprecated and not name.endswith("ResourceWeight"):
            yield finding("deprecated-name", setup.show(name), name=name, explained=entry.why)
        elif name in _IGNORED:
            yield finding("ignored-name", setup.show(name), name=name)


def unread_here(setup: Setup) -> Iterator[Diagnosis]:
    """Find settings that work in Apache Pulsar and have no effect in this product's own brokers."""
    names = set_and_unread(setup.properties.values)
    if names:
        yield finding("unread-by-counterpoise", setup.written(*names), count=len(names))


_QUORUMS = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)


def copies(setup: Setup) -> Iterator[Diagnosis]:
    """Find numbers of bookies that contradict each other, or store only one copy of a message."""
    ensemble, write, ack = (setup.number(name) for name in _QUORUMS)
    if not ensemble >= write >= ack:
        yield finding(
            "quorums-contradict", setup.show(*_QUORUMS), ensemble=ensemble, write=write, ack=ack
        )
    elif ack == 1:
        yield finding("one-copy-acknowledged", setup.show(*_QUORUMS))


def unknown_names(setup: Setup) -> list[str]:
    """Return the names, misspelled ones too, that neither Pulsar nor this program knows."""
    return unknown(setup.properties.values)


CHECKS = (bad_values, misspelled, repeated, deprecated, unread_here, copies)
