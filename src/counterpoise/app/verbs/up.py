"""``counterpoise up``: a local cluster that runs until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import queue
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.errors import UserError

if TYPE_CHECKING:
    from counterpoise.app.local_cluster import LocalCluster
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise up                            three brokers on free ports, balanced by Spark
  counterpoise up --brokers 5 --no-balance   five brokers, bundles stay where they are
  counterpoise up --data ./cluster           keep messages, metadata and history for next time
  counterpoise up --port 6650 --web-port 8080
      brokers on 6650, 6651, …, their admin APIs on 8080, 8081, …
  counterpoise up --metadata zk:10.0.0.1:2181/test
      on a ZooKeeper that runs already

It needs Java 17 or later for ZooKeeper (unless --metadata names one) and for Spark (unless
--no-balance). Ctrl-C or SIGTERM stops every process; so does killing this one.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``up`` and its options."""
    parser = subparsers.add_parser(
        "up",
        help="start a local cluster and leave it running",
        description="Start ZooKeeper, brokers and a balancer on this machine, until Ctrl-C.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where everything is kept (default: a temporary directory, removed at the end)",
    )
    parser.add_argument(
        "--metadata", metavar="URL", help="zk:host:port[/path] of a ZooKeeper that runs already"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="first binary port (default: free)"
    )
    parser.add_argument(
        "--web-port", type=int, default=0, metavar="PORT", help="first admin port (default: free)"
    )
    add_conf_arguments(parser)
    parser.add_argument(
        "--balance",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether the leader moves bundles by what Spark decides (default yes)",
    )
    parser.add_argument(
        "--balance-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="an option of 'counterpoise balance', such as --balance-option=--interval=1s",
    )
    parser.add_argument("--json", action="store_true", help="tell the addresses as one JSON line")
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="how much the brokers' logs say (default warning)",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the cluster until it is told to stop, or no broker is left (status 1)."""
    from counterpoise.app.local_cluster import LocalCluster, LocalClusterOptions
    from counterpoise.broker.config import BrokerConfig

    if args.brokers < 1:
        raise UserError(f"--brokers {args.brokers}: a cluster needs at least one broker.")
    properties = read_conf(args.conf, args.settings)
    # Here, where the line can be named, rather than in the log of a broker that does not start.
    settings_from(BrokerConfig, properties)
    options = LocalClusterOptions(
        brokers=args.brokers,
        data=args.data,
        metadata_url=args.metadata,
        settings=dict(properties.values),
        balance=args.balance,
        balance_options=args.balance_option,
        first_port=args.port,
        first_web_port=args.web_port,
        log_level=args.log_level,
    )
    if args.balance:
        _require_spark()
    ended: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    cluster = LocalCluster(options, on_ended=lambda name, status: ended.put((name, status)))
    for number in (signal.SIGINT, signal.SIGTERM):
        # SIGINT too: a shell starts background jobs with it ignored.
        signal.signal(number, _interrupt)
    began = time.monotonic()
    try:
        cluster.start()
        _tell(cluster, args, time.monotonic() - began)
        return _watch(cluster, ended)
    finally:
        # A second Ctrl-C must not leave half of it running.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        cluster.stop()


def _watch(cluster: LocalCluster, ended: queue.SimpleQueue[tuple[str, int]]) -> int:
    """Wait for Ctrl-C (status 0), telling of brokers that end; status 1 when none is left."""
    from counterpoise.app.local_cluster import ZOOKEEPER

    try:
        while any(each.alive for each in cluster.brokers):
            name, status = ended.get()
            if name == ZOOKEEPER:
                _begin_again(cluster, status)
                continue
            log = cluster.data / "logs" / f"{name}.log"
            sys.stderr.write(f"{name} ended with status {status}; its output is in {log}\n")
    except KeyboardInterrupt:
        return 0
    sys.stderr.write("counterpoise: no broker is left\n")
    return 1


def _begin_again(cluster: LocalCluster, status: int) -> None:
    """Start ZooKeeper again, as often as it takes: without it no metadata can be read."""
    log = cluster.data / "zookeeper" / "zookeeper.log"
    pause_s = 1.0
    sys.stderr.write(f"ZooKeeper ended with status {status}; its output is in {log}\n")
    while True:
        try:
            cluster.restart_zookeeper()
        except UserError as error:
            sys.stderr.write(f"ZooKeeper does not start: {error} Again in {pause_s:g} s.\n")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 60.0)
        else:
            sys.stderr.write("ZooKeeper runs again, with the metadata that it had written\n")
            return


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _require_spark() -> None:
    import importlib.util

    from counterpoise.app.java import find_java

    if importlib.util.find_spec("pyspark") is None:
        raise UserError(
            "the balancer needs Spark: install 'counterpoise[pipeline]', or use --no-balance."
        )
    find_java()


def _tell(cluster: LocalCluster, args: argparse.Namespace, took_s: float) -> None:
    if args.json:
        told = {
            "service_url": cluster.service_url,
            "admin_url": cluster.admin_url,
            "metadata_url": cluster.metadata_url,
            "data": str(cluster.data),
            "brokers": [
                {"id": each.id, "service_url": each.service_url, "admin_url": each.admin_url}
                for each in cluster.brokers
            ],
        }
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        kept = "kept" if args.data else "removed at the end"
        balancer = f"started by the leader, history in {cluster.history}" if args.balance else "off"
        sys.stdout.write(
            f"{len(cluster.brokers)} brokers serve, {took_s:.1f} s after the start\n\n"
            f"  service URL  {cluster.service_url}\n"
            f"  admin URL    {cluster.admin_url}\n"
            f"  metadata     {cluster.metadata_url}\n"
            f"  data, logs   {cluster.data} ({kept})\n"
            f"  balancer     {balancer}\n\n"
            f"try it:\n"
            f"  pulsar-admin --admin-url {cluster.admin_url} brokers list standalone\n"
            f"  curl {cluster.admin_url}/admin/v2/broker-stats/load-report\n"
            f"  python -c \"import pulsar; c = pulsar.Client('{cluster.service_url}'); "
            f"p = c.create_producer('greetings'); print(p.send(b'hello')); c.close()\"\n\n"
            "Ctrl-C stops all of it.\n"
        )
    sys.stdout.flush()
