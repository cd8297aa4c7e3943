"""The strategy that `advise` and `balance` follow: the cluster's own, unless another is named."""

from __future__ import annotations

import argparse

from counterpoise.app.client import client_security
from counterpoise.app.conf import read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.strategies import (
    SHEDDER_SETTING,
    find_placement,
    find_shedder,
    strategy_from,
)
from counterpoise.decide.balancing.round import Strategy
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.settings import settings_of_any
from counterpoise.security.client import http_session


async def strategy_of(
    args: argparse.Namespace, addresses: tuple[str, ...]
) -> tuple[Strategy, Properties, str]:
    """The strategy, the settings that it follows, and a sentence where these are not the cluster's.

    A setting of ``--set`` wins over one of ``--conf``, this over the cluster's own, this over
    Pulsar's default. Raises `UserError` or `ConfigError`.
    """

    def own(conf: Properties) -> tuple[type, type]:
        return find_shedder(args.strategy, conf).options, find_placement(args.placement).options

    given = read_conf(args.conf, args.settings, own)
    conf, note = given, ""
    try:
        async with http_session(client_security(args)) as session:
            running = await settings_of_any(Admin(session, AdminOptions()), addresses)
        conf = running.overridden(given.values)
    except RefusedError as error:
        if addresses:
            note = f"{error}; Pulsar's defaults hold where --conf and --set name nothing else"
    try:
        find_shedder(args.strategy, conf)
    except ConfigError as error:
        if SHEDDER_SETTING in given.values or args.strategy:
            raise
        name = conf.values.get(SHEDDER_SETTING)
        raise UserError(f"the cluster sheds by {name}: {error}; name one with --strategy") from None
    strategy = strategy_from(
        conf,
        shedder=args.strategy,
        placement=args.placement,
        decide_every_s=getattr(args, "decide_every", None),
        grace_s=getattr(args, "grace_period", None),
        thrash_span_s=args.thrash_span,
    )
    return strategy, conf, note
