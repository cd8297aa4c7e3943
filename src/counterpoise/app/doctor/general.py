"""Checks of the file itself: bad values, misspelled, repeated, deprecated and ignored names."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity, Shown
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
        yield Diagnosis(
            "bad-value",
            f"{error.name}: {error.problem}",
            "The checks below go on with the default.",
            {
                error.name: Shown(
                    setup.properties.values[error.name], setup.properties.lines.get(error.name)
                )
            },
            {error.name: shown},
        )


def misspelled(setup: Setup) -> Iterator[Diagnosis]:
    """Find names that Pulsar does not know but that look like one it does."""
    for name, value in setup.properties.values.items():
        if name in table() or name in broker_conf_names():
            continue
        alike = get_close_matches(name, sorted(broker_conf_names()), n=1, cutoff=_ALIKE)
        if alike:
            yield Diagnosis(
                "misspelled-name",
                f"{name} is no setting of Pulsar's",
                f"Pulsar ignores it without a word. It looks like {alike[0]}.",
                {name: Shown(value, setup.properties.lines.get(name))},
                {alike[0]: value},
                advice=f"delete {name}",
            )


def repeated(setup: Setup) -> Iterator[Diagnosis]:
    """Find names that are set twice."""
    for name, lines in setup.properties.repeated.items():
        where = ", ".join(map(str, lines))
        yield Diagnosis(
            "repeated-name",
            f"{name} stands on lines {where}",
            "Only the last one counts.",
            {name: Shown(setup.properties.values[name], lines[-1])},
            {name: setup.properties.values[name]},
            severity=Severity.PROBLEM if name in table() else Severity.ADVICE,
        )


def deprecated(setup: Setup) -> Iterator[Diagnosis]:
    """Find names that have no effect any more."""
    for name, entry in table().items():
        if not setup.changed(name):
            continue
        if entry.option.deprecated and not name.endswith("ResourceWeight"):
            yield Diagnosis(
                "deprecated-name",
                f"{name} does nothing any more",
                entry.why,
                setup.show(name),
                severity=Severity.ADVICE,
                advice=f"delete {name}",
            )
        elif name in _IGNORED:
            yield Diagnosis(
                "ignored-name",
                f"{name} is accepted and ignored",
                "Since PIP-322 a limit is a token bucket, which needs no ticks.",
                setup.show(name),
                severity=Severity.ADVICE,
                advice=f"delete {name}",
            )


def unread_here(setup: Setup) -> Iterator[Diagnosis]:
    """Find settings that work in Apache Pulsar and have no effect in this product's own brokers."""
    names = set_and_unread(setup.properties.values)
    if names:
        yield Diagnosis(
            "unread-by-counterpoise",
            f"Counterpoise's own brokers read {len(names)} of these settings not at all",
            "Apache Pulsar's brokers do; here they are accepted and change nothing "
            "(docs/UNREAD.md).",
            {
                name: Shown(setup.properties.values[name], setup.properties.lines.get(name))
                for name in names
            },
            severity=Severity.ADVICE,
            advice="expect nothing of them on Counterpoise's brokers",
        )


_QUORUMS = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)


def copies(setup: Setup) -> Iterator[Diagnosis]:
    """Find numbers of bookies that contradict each other, or store only one copy of a message."""
    ensemble, write, ack = (setup.number(name) for name in _QUORUMS)
    if not ensemble >= write >= ack:
        yield Diagnosis(
            "quorums-contradict",
            f"of {ensemble:g} bookies, {write:g} store a message and {ack:g} acknowledge it",
            "No ledger can be made with these numbers, so no topic on BookKeeper can be opened.",
            setup.show(*_QUORUMS),
            advice="set them so that none is larger than the one before",
        )
    elif ack == 1:
        yield Diagnosis(
            "one-copy-acknowledged",
            "a message is acknowledged when one bookie has it",
            "It is lost with that bookie's disk, if that is before another one has it.",
            setup.show(*_QUORUMS),
            severity=Severity.ADVICE,
            advice="set managedLedgerDefaultAckQuorum=2",
        )


def unknown_names(setup: Setup) -> list[str]:
    """The names of settings that neither Pulsar nor this program knows, misspelled ones
    included.
    """
    return unknown(setup.properties.values)


CHECKS = (bad_values, misspelled, repeated, deprecated, unread_here, copies)
