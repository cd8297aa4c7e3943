"""``counterpoise history import``: make a history from a cluster's metrics in Prometheus."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from counterpoise.app.addresses import admin_urls, is_http_url
from counterpoise.app.client import client_session
from counterpoise.app.errors import UserError
from counterpoise.app.files import read_text
from counterpoise.app.output import say_with_time
from counterpoise.app.progress import while_waiting
from counterpoise.app.times import moment_or_ago_ms
from counterpoise.pipeline.clock import EVER, wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.prometheus.api import PrometheusApi
from counterpoise.pipeline.prometheus.boundaries import (
    BundleBoundaries,
    ClusterBoundaries,
    KnownBundles,
    NamedBoundaries,
)
from counterpoise.pipeline.prometheus.exported import ExportedFiles
from counterpoise.pipeline.prometheus.import_record import ImportRecord
from counterpoise.pipeline.prometheus.import_run import (
    HistoryImport,
    ImportOptions,
    NothingNewError,
)
from counterpoise.pipeline.prometheus.series import SeriesLabels
from counterpoise.pipeline.prometheus.source import SeriesSource
from counterpoise.pipeline.prometheus.time_grid import TimeGrid
from counterpoise.pipeline.tables.location import open_location
from counterpoise.security.client import ClientSecurity, Names, http_session
from counterpoise.security.options import ClientOptions

FIRST_PAUSE_S = 1.0
"""Seconds to wait before a failed query is sent again for the first time."""
STEP_S = 60.0
_NAMES = Names(
    plugin="--prometheus-user-file",
    parameters="--prometheus-token-file",
    trust="--prometheus-ca",
    certificate="--prometheus-cert",
    key="--prometheus-key",
)


def run_import(args: argparse.Namespace) -> int:
    """Import the metrics into the history, and report what was imported."""
    if bool(args.prometheus) == bool(args.file):
        raise UserError("say where the metrics are: either --prometheus URL or --file FILE")
    try:
        record = asyncio.run(_imported(args))
    except NothingNewError as error:
        say_with_time(str(error))
        return 0
    _say(record, args.history)
    return 0


async def _imported(args: argparse.Namespace) -> ImportRecord:
    location = open_location(args.history)
    options = ImportOptions(_grid_of(args), by=args.by, cluster=args.cluster, match=args.match)
    async with _source(args) as source, _boundaries(args) as boundaries:
        bundles = KnownBundles(boundaries, args.default_bundles)
        labels = SeriesLabels(bundles, args.broker_label, _brokers(args.broker))
        imported = HistoryImport(source, labels, location, options, say_with_time, time.monotonic)
        return await while_waiting(imported.run(), f"importing {args.prometheus or 'files'}")


def _grid_of(args: argparse.Namespace) -> TimeGrid:
    now_ms = wall_clock_ms()
    first_ms = moment_or_ago_ms(args.first or ("" if args.file else "-30d"), now_ms)
    last_ms = moment_or_ago_ms(args.last, now_ms)
    if args.file:
        # Without --from and --to, all that the files contain, even later than this clock's time.
        first_ms, last_ms = (first_ms if args.first else 0), (last_ms if args.last else EVER)
    if last_ms <= first_ms:
        raise UserError(
            f"--from {args.first} --to {args.last or 'now'}: expected an earlier time first"
        )
    step_ms = max(1, round((args.step or STEP_S) * 1000))
    # Aligned to whole steps, so that a later import of the same metrics has the same times.
    first_ms = -(-first_ms // step_ms) * step_ms
    return TimeGrid(first_ms, step_ms, max(1, (last_ms - first_ms) // step_ms + 1))


def _brokers(given: list[str]) -> Mapping[str, str]:
    found = {}
    for text in given:
        value, mark, broker = text.partition("=")
        if not (mark and value and broker):
            raise UserError(f"--broker {text}: expected VALUE=HOST:PORT")
        found[value] = broker
    return found


@asynccontextmanager
async def _source(args: argparse.Namespace) -> AsyncIterator[SeriesSource]:
    if args.file:
        yield ExportedFiles(args.file, round(args.step * 1000))
        return
    if not is_http_url(args.prometheus):
        raise UserError(f"--prometheus {args.prometheus}: expected http:// or https://")
    async with http_session(_prometheus_security(args)) as session:
        yield PrometheusApi(
            session,
            args.prometheus,
            args.match,
            timeout_s=args.prometheus_timeout,
            first_pause_s=FIRST_PAUSE_S,
        )


def _prometheus_security(args: argparse.Namespace) -> ClientSecurity:
    """Return the credentials for Prometheus; raises `UserError` and `ConfigError`."""
    plugin = parameters = ""
    if args.prometheus_token_file and args.prometheus_user_file:
        raise UserError("--prometheus-token-file and --prometheus-user-file: give one of them")
    if args.prometheus_token_file:
        plugin = "token"
        parameters = Path(args.prometheus_token_file).absolute().as_uri()
    elif args.prometheus_user_file:
        user, mark, password = read_text(args.prometheus_user_file).strip().partition(":")
        if not mark:
            raise UserError(f"{args.prometheus_user_file}: expected user:password")
        plugin, parameters = "basic", json.dumps({"userId": user, "password": password})
    options = ClientOptions(
        plugin=plugin,
        parameters=parameters,
        trust=args.prometheus_ca,
        certificate=args.prometheus_cert,
        key=args.prometheus_key,
        verify_host=True,
    )
    return ClientSecurity(options, _NAMES)


@asynccontextmanager
async def _boundaries(args: argparse.Namespace) -> AsyncIterator[BundleBoundaries | None]:
    if args.bundles is not None:
        yield NamedBoundaries.read(args.bundles)
    elif args.admin_url:
        async with client_session(args) as session:
            yield ClusterBoundaries(Admin(session, AdminOptions()), admin_urls(args.admin_url))
    else:
        yield None


def _say(record: ImportRecord, history: str) -> None:
    facts = record.facts
    sys.stdout.write(
        f"{facts.moments:,} looks {record.step_ms / 1000:g} s apart, {facts.reports:,} reports of "
        f"brokers, {facts.fresh:,} of them with new figures, {facts.bundle_rows:,} of bundles\n"
    )
    if facts.empty_moments or facts.gaps:
        sys.stdout.write(
            f"gaps: {facts.empty_moments:,} looks without any figures, {facts.gaps:,} times a "
            "broker without; nothing is interpolated\n"
        )
    if facts.contested:
        sys.stdout.write(
            f"{facts.contested:,} times of {facts.owned:,} a bundle was on two brokers, as it moved"
            ": the newer one has it\n"
        )
    for note in record.notes:
        sys.stdout.write(f"{note}\n")
    sys.stdout.write(f"try strategies on it: counterpoise backtest {history}\n")
