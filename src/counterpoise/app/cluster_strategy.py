"""Chooses the strategy of `advise` and `balance`: Counterpoise, unless another one is named."""

import argparse

from counterpoise.app import strategies
from counterpoise.app.client import client_session
from counterpoise.app.conf import read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.progress import while_waiting
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.shedding.counterpoise.strategy import Counterpoise
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.settings import settings_of_any

CLUSTERS_OWN = "cluster"
"""The value of ``--strategy`` that means the strategy named by the cluster's own settings."""


async def strategy_of(
    args: argparse.Namespace, addresses: tuple[str, ...]
) -> tuple[BalancingStrategy, Properties, str]:
    """Choose a balancer's strategy by its options and the cluster's settings.

    Returns the strategy, the settings that it uses, and a sentence to print about both, or an empty
    text. A setting is taken from ``--set``, else ``--conf``, else the cluster's own settings, else
    Pulsar's defaults. The cluster's own strategy is used only with ``--strategy cluster``. Raises
    `UserError` or `ConfigError`.
    """

    def own(conf: Properties) -> tuple[type, type]:
        chosen = strategies.find_shedder(_named(args, conf), conf)
        return chosen.options, strategies.find_placement(args.placement).options

    given = read_conf(args.conf, args.settings, own)
    class_name = _named(args, given)
    conf, notes = given, []
    try:
        async with client_session(args) as session:
            running = await while_waiting(
                settings_of_any(Admin(session, AdminOptions()), addresses), "reading its settings"
            )
        conf = strategies.as_load_manager_reads(running).overridden(given.values)
    except RefusedError as error:
        if addresses:
            notes.append(
                f"{error}; Pulsar's defaults hold where --conf and --set name nothing else"
            )
    if args.strategy is None and class_name is not None:
        named = conf.values.get(strategies.SHEDDER_SETTING, "")
        own_name = f" ({named.rpartition('.')[2]})" if named else ""
        notes.append(
            f"no strategy is named: {class_name} decides; --strategy {CLUSTERS_OWN} follows the "
            f"cluster's own{own_name}"
        )
    try:
        strategies.find_shedder(class_name, conf)
    except ConfigError as error:
        if strategies.SHEDDER_SETTING in given.values or class_name:
            raise
        name = conf.values.get(strategies.SHEDDER_SETTING)
        raise UserError(f"the cluster sheds by {name}: {error}; name one with --strategy") from None
    strategy = strategies.strategy_from(
        conf,
        shedder=class_name,
        placement=args.placement,
        decide_every_s=getattr(args, "decide_every", None),
        grace_s=getattr(args, "grace_period", None),
        thrash_span_s=args.thrash_span,
        costly_span_s=args.costly_span,
    )
    return strategy, conf, "; ".join(notes)


def _named(args: argparse.Namespace, given: Properties) -> str | None:
    """Return the name of the strategy to use; None: the one that the settings name."""
    if args.strategy is None and strategies.SHEDDER_SETTING not in given.values:
        return Counterpoise.name
    return None if args.strategy == CLUSTERS_OWN else args.strategy
