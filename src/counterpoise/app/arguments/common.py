"""Arguments that several verbs share, each declared once."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from counterpoise.app.numbers import count
from counterpoise.app.times import FROM_HELP, TO_HELP, seconds, some_time

ReadText = Callable[[str], object]
"""Parses the text given for an option; raises `argparse.ArgumentTypeError`."""


def flag(to: argparse._ActionsContainer, name: str, text: str) -> None:
    """Add an option without a value, which is False if it is not given."""
    to.add_argument(name, action="store_true", help=text)


def repeated(
    to: argparse._ActionsContainer, name: str, metavar: str, text: str, kind: ReadText = str
) -> None:
    """Add an option that may be given several times; its default is an empty list."""
    to.add_argument(name, action="append", default=[], type=kind, metavar=metavar, help=text)


def file(to: argparse._ActionsContainer, name: str, text: str, metavar: str = "FILE") -> None:
    """Add an option that takes the path of a file or directory; its default is None."""
    to.add_argument(name, type=Path, metavar=metavar, help=text)


def number(
    to: argparse._ActionsContainer,
    name: str,
    metavar: str,
    kind: ReadText,
    default: float,
    text: str,
    unit: str = "",
) -> None:
    """Add an option that takes a number; its help is `text`, and the default in its `unit`."""
    shown = f"{text} ({default:g}{unit})"
    to.add_argument(name, type=kind, default=default, metavar=metavar, help=shown)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--json``; ``what`` names what is written as JSON, for the help."""
    flag(parser, "--json", f"{what} as JSON, for a script")


def add_history(parser: argparse.ArgumentParser, what: str, *, required: bool = True) -> None:
    """Add ``--history``; its help is ``what``: which history it is, and for what."""
    parser.add_argument("--history", required=required, metavar="URI", help=what)


def add_strategy(parser: argparse.ArgumentParser) -> None:
    """Add ``--strategy``, the shedder to use, and ``--placement``, the placement strategy."""
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="a shedder: short name, Java class, module:Class, or 'cluster' for the cluster's own "
        "(default: loadBalancerLoadSheddingStrategy of --set or --conf, else Counterpoise)",
    )
    add_placement(parser)


def add_placement(parser: argparse.ArgumentParser) -> None:
    """Add ``--placement``, the strategy that chooses the destinations of moves."""
    parser.add_argument(
        "--placement",
        default="LeastUsage",
        metavar="NAME",
        help="the placement strategy: LeastUsage (the default), one of Pulsar's, or module:Class",
    )


def add_interval(parser: argparse.ArgumentParser) -> None:
    """Add ``--interval``, the seconds between two polls of a cluster."""
    what = "time between two looks at the cluster, such as 5s or 500ms"
    number(parser, "--interval", "TIME", some_time, 5.0, what, "s")


def add_thrash_span(
    parser: argparse.ArgumentParser, default_s: float, note: str = "0: never"
) -> None:
    """Add ``--thrash-span``: how long a bundle stays after moves back and forth.

    `note` says what 0 means, for the help.
    """
    default = f"{default_s / 3600:g}h" if default_s else "0"
    parser.add_argument(
        "--thrash-span",
        type=seconds,
        default=default_s,
        metavar="TIME",
        help="for how long a bundle stays that was moved back and forth within that time "
        f"(default {default}; {note})",
    )


def add_costly_span(parser: argparse.ArgumentParser) -> None:
    """Add ``--costly-span``: how long a bundle stays after moves that disturbed its clients."""
    parser.add_argument(
        "--costly-span",
        type=seconds,
        default=6 * 3600.0,
        metavar="TIME",
        help="for how long a bundle stays after two moves that disturbed its clients: each took "
        "five seconds and four times the usual, or slowed publishing down (default 6h; 0: never)",
    )


def add_move_seconds(parser: argparse.ArgumentParser) -> None:
    """Add ``--move-seconds``: for how long a move makes a bundle unavailable."""
    parser.add_argument(
        "--move-seconds", type=float, metavar="S", help="duration of a move (default: as recorded)"
    )


def add_span(parser: argparse.ArgumentParser) -> None:
    """Add ``--from`` and ``--to``, the span of a history to use."""
    parser.add_argument("--from", dest="first", default="", metavar="TIME", help=FROM_HELP)
    parser.add_argument("--to", dest="last", default="", metavar="TIME", help=TO_HELP)


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add ``--metrics``, the address at which metrics are served for Prometheus."""
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health (HOST: 127.0.0.1)"
    )


def add_notify(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add ``--notify``, the URL of a webhook for notices, and the options about their form."""
    group = parser.add_argument_group("notify an operator of findings, rounds, refusals and stops")
    group.add_argument(
        "--notify",
        required=required,
        metavar="URL",
        help="the URL of a webhook; of Alertmanager the address alone",
    )
    group.add_argument(
        "--notify-format",
        choices=("json", "slack", "alertmanager"),
        default="json",
        help="the format that the webhook expects (json)",
    )
    file(
        group,
        "--notify-secret-file",
        "sign each body: X-Counterpoise-Signature: sha256=HMAC, in hexadecimal",
    )
    group.add_argument(
        "--notify-link", default="", metavar="URL", help="a link in notices, say to a console"
    )
    group.add_argument(
        "--notify-cluster", default="", metavar="NAME", help="the cluster's name in notices"
    )


def add_writer(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that write a history, such as ``--watchdog``, ``--metrics``."""
    add_metrics(parser)
    flag(parser, "--watchdog", "alert as `counterpoise watchdog` does")
    parser.add_argument(
        "--retain-days",
        type=count,
        default=0,
        metavar="DAYS",
        help="for how many days history is retained (default: all)",
    )
    parser.add_argument(
        "--time-travel-days",
        type=count,
        default=1,
        metavar="DAYS",
        help="how far back the history's tables can be read as they were (default: 1)",
    )
    add_wait_for_history(parser)
    add_notify(parser)


def add_wait_for_history(parser: argparse.ArgumentParser) -> None:
    """Add ``--wait-for-history``: how long to wait while another process writes the history."""
    parser.add_argument(
        "--wait-for-history",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help="how long to wait for another writer to release the history (default 0)",
    )


def add_fleet(parser: argparse.ArgumentParser) -> None:
    """Add ``--fleet``, a file that names clusters, and ``--within``, a time limit for each."""
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        help="several clusters side by side, each a [[cluster]] of this TOML file",
    )
    number(
        parser,
        "--within",
        "TIME",
        some_time,
        10.0,
        "with --fleet: how long a cluster, or a history, may take to answer",
        "s",
    )


def add_trail(parser: argparse.ArgumentParser) -> None:
    """Add ``--history``, ``--who`` and ``--why``, by which an operator's action is recorded."""
    add_history(
        parser,
        "the balancer's history, which records the action with --who and --why; the action obeys "
        "its pause, and counts towards its limits per hour",
        required=False,
    )
    add_who_and_why(parser)


def add_who_and_why(parser: argparse.ArgumentParser) -> None:
    """Add ``--who`` and ``--why``, which are recorded with an operator's action."""
    parser.add_argument("--who", default="", metavar="NAME", help="who acts (this account)")
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason, kept in the history")


def add_execute(parser: argparse.ArgumentParser) -> None:
    """Add ``--execute``, without which nothing is moved."""
    flag(parser, "--execute", "carry out the moves (default: only print them)")


def add_save(parser: argparse.ArgumentParser) -> None:
    """Add ``--save``, the file to which a plan is written."""
    file(parser, "--save", "write the plan to this file as JSON")


def add_spark(
    parser: argparse.ArgumentParser,
    master: str | None = "local[*]",
    text: str = "Spark's master: local[*] (the default), spark://host:port, k8s://… or yarn",
) -> None:
    """Add ``--master``, Spark's master, and ``--spark-conf``, settings of Spark."""
    parser.add_argument("--master", default=master, metavar="URL", help=text)
    repeated(
        parser,
        "--spark-conf",
        "NAME=VALUE",
        "a setting of Spark's, such as spark.driver.memory=4g; may be repeated",
    )


def add_balance_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--balance-option``, an option for the balancer that a command starts."""
    repeated(
        parser,
        "--balance-option",
        "OPTION",
        "an option of 'counterpoise balance' on Spark, such as --balance-option=--interval=1s",
    )


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """Add ``--log-level`` of brokers."""
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="how much brokers log (default warning)",
    )


def add_admin_url(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add ``--admin-url``, the admin URLs of one or several brokers of a cluster."""
    parser.add_argument(
        "--admin-url",
        required=required,
        metavar="URL",
        help="admin address of any broker; several, separated by commas, are tried in turn",
    )


def add_client(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout``, how long a broker may take for one response, and the credentials."""
    parser.add_argument(
        "--timeout",
        type=some_time,
        metavar="TIME",
        help="how long a broker may take for one response (10s; 60s for a change)",
    )
    add_credentials(parser)


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Add pulsar-admin's options for TLS and authentication."""
    group = parser.add_argument_group("a cluster with TLS or authentication (as for pulsar-admin)")
    group.add_argument(
        "--auth-plugin",
        metavar="CLASS",
        help="token, tls or basic, or the class of Pulsar's client for it, such as "
        "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    )
    group.add_argument(
        "--auth-params",
        metavar="TEXT",
        help="file:///path of a token (others may read token:… off the process list), "
        'tlsCertFile:…,tlsKeyFile:… or {"userId":…,"password":…}',
    )
    group.add_argument(
        "--tls-trust-cert-path",
        "--tls-trust-certs",
        metavar="FILE",
        help="the authorities to trust for https:// (default: this machine's)",
    )
    flag(
        group,
        "--tls-allow-insecure",
        "accept any certificate: another machine can then read and change everything",
    )
    flag(
        group,
        "--tls-enable-hostname-verification",
        "require that a certificate names the host in the URL",
    )


def add_conf(parser: argparse.ArgumentParser) -> None:
    """Add ``--conf``, a broker.conf, and ``--set``, single settings that override it."""
    parser.add_argument(
        "--conf",
        metavar="FILE",
        help="a broker.conf, as Apache Pulsar reads it; unknown names are ignored",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="one setting under its broker.conf name; overrides --conf; may be repeated",
    )


def add_listing(parser: argparse.ArgumentParser, columns: Sequence[str]) -> None:
    """Add ``--json`` and ``--sort`` for a list with these columns."""
    flag(parser, "--json", "a list of objects, for a script")
    parser.add_argument(
        "--sort",
        choices=columns,
        default=columns[0],
        metavar="COLUMN",
        help=f"by which column ({columns[0]}): {', '.join(columns)}; figures from the largest on",
    )


def add_target(parser: argparse.ArgumentParser, *, namespaces: bool = True) -> None:
    """Add the target (bundle, topic or, if ``namespaces``, namespace) and the cluster's options."""
    kinds = {
        "BUNDLE": "tenant/namespace/0x…_0x…",
        "TOPIC": "persistent://tenant/namespace/topic",
        **({"NAMESPACE": "tenant/namespace"} if namespaces else {}),
    }
    parser.add_argument("target", metavar="|".join(kinds), help=" or ".join(kinds.values()))
    add_admin_url(parser)


def add_namespace(parser: argparse.ArgumentParser) -> None:
    """Add ``--admin-url``, and the namespace to show."""
    parser.add_argument(
        "namespace", nargs="?", metavar="NAMESPACE", help="tenant/namespace (default: all)"
    )
    add_admin_url(parser)
