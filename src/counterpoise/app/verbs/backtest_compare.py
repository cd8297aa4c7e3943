"""``counterpoise backtest --compare``: the effect of a change of configuration, or of version.

Each side is a broker.conf, or a version of Pulsar with its defaults. Both are replayed as Pulsar's
own leader would decide and place, since the settings are the leader's.
"""

import argparse
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from counterpoise.app.conf import read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.strategies import as_pulsar
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.split_trace import SplitSource
from counterpoise.pipeline.backtest.trace import Source

BUNDLES = "defaultNumberOfNamespaceBundles"
_IMPL = "org.apache.pulsar.broker.loadbalance.impl."

VERSIONS = MappingProxyType(
    {
        "pulsar-4.0": {
            "loadBalancerLoadSheddingStrategy": f"{_IMPL}ThresholdShedder",
            "loadBalancerLoadPlacementStrategy": f"{_IMPL}LeastLongTermMessageRate",
            BUNDLES: "4",
        },
        # apache/pulsar#26609 and #26610, merged in September 2026 for the next version.
        "pulsar-next": {
            "loadBalancerLoadSheddingStrategy": f"{_IMPL}AvgShedder",
            "loadBalancerLoadPlacementStrategy": f"{_IMPL}AvgShedder",
            BUNDLES: "32",
        },
    }
)
"""The defaults that differ between Pulsar's versions and affect a replay, by version."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two configurations that ``backtest --compare`` compares."""

    label: str
    conf: Properties


def sides_of(args: argparse.Namespace) -> tuple[Side, Side]:
    """Return the two configurations of ``--compare``; --conf and --set override their settings."""
    now, then = (
        Side(f"{word}: {name}", _conf(name, args))
        for word, name in zip(("now", "then"), args.compare, strict=True)
    )
    return now, then


def _conf(name: str, args: argparse.Namespace) -> Properties:
    if name in VERSIONS:
        given = read_conf(args.conf, args.settings)
        return Properties(VERSIONS[name]).overridden(given.values)
    if args.conf:
        raise UserError(
            f"--compare {name}: with --conf, both sides are versions: {' or '.join(VERSIONS)}"
        )
    try:
        return read_conf(name, args.settings)
    except UserError as error:
        raise UserError(f"{error} (a version is one of {', '.join(VERSIONS)})") from None


def candidate_of(side: Side, thrash_span_s: float) -> BacktestCandidate:
    """Make a replay's candidate: the strategy of Pulsar's own leader with this configuration.

    ``thrash_span_s``: seconds for which a bundle is not moved back to a broker that it left. Raises
    `UserError`.
    """
    try:
        return BacktestCandidate(side.label, as_pulsar(side.conf, thrash_span_s=thrash_span_s))
    except ConfigError as error:
        raise UserError(f"{side.label}: {error}") from None


def split_count(now: Side, then: Side) -> int:
    """Return into how many parts each recorded bundle is split for the replay of ``then``.

    More than 1 if ``then`` gives a new namespace more bundles than ``now`` does. Raises
    `UserError`.
    """
    try:
        few, many = (int(side.conf.values.get(BUNDLES) or 4) for side in (now, then))
    except ValueError as error:
        raise UserError(f"{BUNDLES}: {error}") from None
    return max(1, round(many / max(1, few)))


def sources_of(source: Source, parts: int) -> tuple[Source, Source]:
    """Return the traces to replay for ``now`` and for ``then``, whose bundles are split."""
    return source, (SplitSource(source, parts) if parts > 1 else source)


def differences(now: Side, then: Side, parts: int) -> list[str]:
    """Return sentences on the settings that differ, and on what the replay assumes."""
    before, after = now.conf.values, then.conf.values
    changed = [
        f"{name}: {_short(before.get(name, 'default'))} -> {_short(after.get(name, 'default'))}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    lines = ["changed: " + ("; ".join(changed) or "nothing")]
    if parts > 1:
        lines.append(
            f"each bundle is replayed as {parts}, as if its namespace had been made with {BUNDLES}="
            f"{after[BUNDLES]}: topics whose load was recorded go where they hash to, the others "
            "are taken to be equally busy, and fall where chance has them; namespaces that are "
            "there already keep their bundles after an upgrade"
        )
    elif before.get(BUNDLES, "4") != after.get(BUNDLES, "4"):
        lines.append(f"{BUNDLES} is not replayed: what was recorded as many bundles is not joined")
    return lines


def _short(value: Any) -> str:
    return str(value).removeprefix(_IMPL)
