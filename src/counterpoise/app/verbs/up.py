"""``counterpoise up``: a local cluster that runs until Ctrl-C."""

import argparse
import contextlib
import importlib.util
import json
import logging
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType

import psutil

from counterpoise import Cluster
from counterpoise.app.clusters.balancer_process import balancer_spec
from counterpoise.app.clusters.console_process import ConsoleProcess
from counterpoise.app.clusters.java import find_java
from counterpoise.app.clusters.local_cluster import (
    LocalCluster,
    LocalClusterOptions,
    data_directory,
)
from counterpoise.app.clusters.processes import Child
from counterpoise.app.clusters.supervisor import RestartSchedule
from counterpoise.app.conf import conf_argv, read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.loading import collect_seldom
from counterpoise.app.settings.table import known_names
from counterpoise.app.wiring import broker_config
from counterpoise.metadata.errors import MetadataError

OWN_ZOOKEEPER = "zk:"
LaunchedCluster = Cluster | LocalCluster


def run(args: argparse.Namespace) -> int:
    """Run ``up``: a local cluster until SIGTERM, Ctrl-C, or the end of all brokers (status 1)."""
    if args.brokers < 1:
        raise UserError(f"--brokers {args.brokers}: a cluster needs at least one broker.")
    properties = read_conf(args.conf, args.settings)
    # Checked here, so that the error names the line, and is not in the log of a failed broker.
    broker_config(properties, args.conf, _warn)
    if args.balance_every <= 0:
        raise UserError(f"--balance-every {args.balance_every:g}: must be more than 0.")
    if args.bookies and args.metadata not in (None, OWN_ZOOKEEPER):
        raise UserError("--bookies come with a ZooKeeper of their own: leave --metadata out.")
    if args.bookies:
        args.metadata = OWN_ZOOKEEPER
    in_processes = args.metadata is not None and not args.metadata.startswith("sqlite:")
    on_spark = args.balance and (args.spark or in_processes)
    if args.balance_option and not on_spark:
        raise UserError("--balance-option is for the balancer on Spark: add --spark.")
    if args.faults and in_processes:
        raise UserError("--faults needs all brokers in one process: leave --metadata out.")
    if args.record and in_processes:
        raise UserError("--record needs all brokers in one process: leave --metadata out.")
    if on_spark:
        _require_spark()
    for number in (signal.SIGINT, signal.SIGTERM):
        # SIGINT too: a shell starts background jobs with it ignored.
        signal.signal(number, _interrupt)
    options = LocalClusterOptions(
        brokers=args.brokers,
        data=args.data,
        metadata_url=None if args.metadata == OWN_ZOOKEEPER else args.metadata,
        settings=dict(properties.values),
        bookies=args.bookies,
        balance=on_spark,
        balance_options=args.balance_option,
        balance_every_s=args.balance_every if args.balance and not on_spark else None,
        first_port=args.port,
        first_web_port=args.web_port,
        log_level=args.log_level,
        faults=args.faults,
        record=args.record,
        record_mib=args.record_mib,
    )
    if in_processes:
        return _run_processes(args, options)
    return _run_here(args, options)


def _warn(sentence: str) -> None:
    sys.stderr.write(f"counterpoise: {sentence}\n")


def _run_processes(args: argparse.Namespace, options: LocalClusterOptions) -> int:
    ended: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    cluster = LocalCluster(options, on_ended=lambda name, status: ended.put((name, status)))
    with _until_stopped(cluster), contextlib.suppress(KeyboardInterrupt):
        with _shown(cluster, cluster.options, args):
            _watch(cluster, ended)
        return 1
    return 0


def _run_here(args: argparse.Namespace, options: LocalClusterOptions) -> int:
    logging.basicConfig(
        level=args.log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    with contextlib.ExitStack() as undo:
        options = replace(options, data=data_directory(options.data, undo))
        cluster = _cluster(options)
        undo.enter_context(_until_stopped(cluster))
        undo.enter_context(contextlib.suppress(KeyboardInterrupt))
        if options.balance:
            spec = balancer_spec(cluster.admin_url, options.history, options.balance_options)
            undo.callback(Child(spec).stop)
        undo.enter_context(_shown(cluster, options, args))
        # It goes through all objects, which takes a moment, so the addresses are printed before.
        collect_seldom()
        threading.Event().wait()
    return 0


def _cluster(options: LocalClusterOptions) -> Cluster:
    """Make a cluster with these options whose brokers run in this process."""
    known = known_names() if options.settings else ()
    config: dict[str, object] = {
        "brokerServicePort": options.first_port,
        "webServicePort": options.first_web_port,
        # Without settings that a broker.conf may hold for other programs.
        **{name: value for name, value in options.settings.items() if name in known},
    }
    if options.metadata_url:
        config["metadataStoreUrl"] = options.metadata_url
    if options.balance:
        # Otherwise the leader and the balancer on Spark would undo each other's moves.
        config["loadBalancerSheddingEnabled"] = False
    return Cluster(
        options.brokers,
        config=config,
        data=options.data,
        balance_every_s=options.balance_every_s,
        faults_over_http=options.faults,
        record=options.record,
        record_mib=options.record_mib,
    )


@contextlib.contextmanager
def _shown(
    cluster: LaunchedCluster, options: LocalClusterOptions, args: argparse.Namespace
) -> Iterator[None]:
    """Print the addresses of a running cluster, and run its console during the block, if any."""
    with _console(cluster, options, args) as console_url:
        _print_addresses(cluster, options, args, console_url)
        yield


def _faults(cluster: LaunchedCluster, options: LocalClusterOptions) -> str:
    return f"{cluster.admin_url}/admin/v2/faults" if options.faults else "off"


def _balancer(options: LocalClusterOptions) -> str:
    if options.balance:
        return f"Spark, history in {options.history}"
    if options.balance_every_s is not None:
        return f"the leader, every {options.balance_every_s:g} s"
    return "off"


@contextlib.contextmanager
def _until_stopped(cluster: LaunchedCluster) -> Iterator[None]:
    """Start the cluster, and stop it when the block ends, also by an error."""
    try:
        cluster.start()
        yield
    except (MetadataError, OSError) as error:
        raise UserError(f"the cluster cannot start: {error}") from None
    finally:
        # A second Ctrl-C must not leave half of the cluster running.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        try:
            cluster.stop()
        except TimeoutError:
            _warn("not everything closed in time; everything acknowledged is stored nevertheless")


@contextlib.contextmanager
def _console(
    cluster: LaunchedCluster, options: LocalClusterOptions, args: argparse.Namespace
) -> Iterator[str]:
    """Run the console during the block, and yield its URL; empty without ``--console``."""
    if args.console is None:
        yield ""
        return

    more = ["--history", str(options.history)] if options.balance else []
    more += conf_argv(args)
    urls = [each.admin_url for each in cluster.brokers]
    log = options.logs / "console.log"
    console = ConsoleProcess(urls, log, port=args.console, more=more)
    try:
        yield console.url
    finally:
        console.stop()


def _watch(cluster: LocalCluster, ended: queue.SimpleQueue[tuple[str, int]]) -> None:
    """Report processes that end, until no broker is left; restart ZooKeeper and bookies."""
    restarts = RestartSchedule(time.monotonic)
    while any(each.alive for each in cluster.brokers):
        try:
            name, status = ended.get(timeout=restarts.wait_s())
        except queue.Empty:
            for each in restarts.take_due():
                _begin_again(cluster, each, restarts)
            continue
        is_broker = any(each.name == name for each in cluster.brokers)
        log = cluster.options.logs / f"{name}.log" if is_broker else cluster.server_log(name)
        sys.stderr.write(f"{name} ended with status {status}; its output is in {log}\n")
        if not is_broker:
            restarts.ended(name)
    sys.stderr.write("counterpoise: no broker is left\n")


def _begin_again(cluster: LocalCluster, name: str, restarts: RestartSchedule) -> None:
    """Restart ZooKeeper or a bookie; if that fails, schedule the next attempt."""
    try:
        cluster.restart_server(name)
    except (UserError, OSError) as error:  # OSError: it could not be forked
        pause_s = restarts.ended(name)
        sys.stderr.write(f"{name} does not start: {error} Again in {pause_s:g} s.\n")
    else:
        restarts.started(name)
        sys.stderr.write(f"{name} runs again, on the data that it had written\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise UserError(
            "the balancer needs Spark: install 'counterpoise[pipeline]', or use --no-balance."
        )
    find_java()


def _print_addresses(
    cluster: LaunchedCluster, options: LocalClusterOptions, args: argparse.Namespace, console: str
) -> None:
    if args.json:
        addresses = {
            "service_url": cluster.service_url,
            "admin_url": cluster.admin_url,
            "metadata_url": cluster.metadata_url,
            "data": str(options.data),
            **({"console_url": console} if console else {}),
            "brokers": [
                {"id": each.id, "service_url": each.service_url, "admin_url": each.admin_url}
                for each in cluster.brokers
            ],
        }
        sys.stdout.write(json.dumps(addresses) + "\n")
    else:
        fate = "kept" if args.data else "removed at the end"
        took_s = time.time() - psutil.Process().create_time()
        sys.stdout.write(
            f"{len(cluster.brokers)} brokers serve, {took_s:.1f} s after the start\n\n"
            f"  service URL  {cluster.service_url}\n"
            f"  admin URL    {cluster.admin_url}\n"
            f"  metadata     {cluster.metadata_url}\n"
            f"  data, logs   {options.data} ({fate})\n"
            f"  balancer     {_balancer(options)}\n"
            f"  faults       {_faults(cluster, options)}\n"
            f"  console      {console or 'none (--console serves a web page)'}\n\n"
            f"try it:\n"
            f"  pulsar-admin --admin-url {cluster.admin_url} brokers list standalone\n"
            f"  curl {cluster.admin_url}/admin/v2/broker-stats/load-report\n"
            f"  python -c \"import pulsar; c = pulsar.Client('{cluster.service_url}'); "
            f"p = c.create_producer('greetings'); print(p.send(b'hello')); c.close()\"\n\n"
            "what next:\n"
            "  counterpoise advise --admin-url URL    advice about any Pulsar cluster\n"
            "  counterpoise demo                      watch an uneven cluster become even\n\n"
            "Ctrl-C stops all of it.\n"
        )
    sys.stdout.flush()
