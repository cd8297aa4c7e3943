"""Arguments of ``counterpoise history import``."""

import argparse
import re
from pathlib import Path

from counterpoise.app.arguments import common
from counterpoise.app.numbers import count
from counterpoise.app.times import some_time

IMPORT_EPILOG = """\
examples:
  counterpoise history import ./history --prometheus http://prometheus:9090 --from -30d \\
      --admin-url http://broker:8080
      a month, in steps of a minute; bundles as in the cluster now
  counterpoise backtest ./history
      replays strategies on it

  curl -s http://prometheus:9090/api/v1/query_range -d 'query={__name__=~"pulsar_rate_.*|…"}' \\
      -d start=… -d end=… -d step=60 | gzip > day.json.gz
  counterpoise history import ./history --file day.json.gz --bundles bundles.json

Series that it reads (of topics; `exposeTopicLevelMetricsInPrometheus`, on by default):
pulsar_rate_in, pulsar_rate_out, pulsar_throughput_in, pulsar_throughput_out,
pulsar_producers_count, pulsar_consumers_count; of brokers: pulsar_lb_cpu_usage,
pulsar_lb_memory_usage, pulsar_lb_directMemory_usage, pulsar_lb_bandwidth_in_usage,
pulsar_lb_bandwidth_out_usage, pulsar_lb_resource_usage. With --by bundles those of
`exposeBundlesMetricsInPrometheus` in place of topics: pulsar_bundle_msg_rate_in and so on.

Run again with the same arguments, it continues where it stopped. Nothing is interpolated: times
without figures in Prometheus are gaps. HISTORY/imported.json has the history's source, resolution
and gaps.
Exit status: 0 when all is imported, 2 for an error to correct.
"""
_AGO = re.compile(r"-\d+(\.\d*)?[smhdw]?$")


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``history import``."""
    # argparse takes a word that begins with - for an option, unless this pattern matches it (-30d).
    parser._negative_number_matcher = _AGO
    _add_source_arguments(parser.add_argument_group("source of the metrics (one of these)"))
    _add_span_arguments(parser.add_argument_group("what is imported"))
    _add_bundle_arguments(parser.add_argument_group("bundles, to which topics are hashed"))
    _add_prometheus_arguments(parser.add_argument_group("a Prometheus with TLS or authentication"))
    common.add_admin_url(parser, required=False)
    common.add_client(parser)


def _add_source_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--prometheus",
        default="",
        metavar="URL",
        help=(
            "the URL of a Prometheus, Thanos, Mimir or VictoriaMetrics, as in Grafana's data source"
        ),
    )
    common.repeated(
        group,
        "--file",
        "FILE",
        "a saved answer of /api/v1/query_range, .gz or not; may be repeated",
        Path,
    )


def _add_span_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--from",
        dest="first",
        default="",
        metavar="TIME",
        help=(
            "start of the import: -30d, -6h, 2026-10-24 or 2026-10-24T06:00, UTC (-30d; for "
            "files their beginning)"
        ),
    )
    group.add_argument("--to", dest="last", default="", metavar="TIME", help="until when (now)")
    group.add_argument(
        "--step",
        type=some_time,
        default=0.0,
        metavar="TIME",
        help="time between two polls of the history (60s; for files their own)",
    )
    group.add_argument("--cluster", default="", metavar="NAME", help="the label `cluster`")
    group.add_argument(
        "--match",
        default="",
        metavar="LABELS",
        help='further labels of the series, as PromQL has them: job="pulsar",env="prod"',
    )
    group.add_argument(
        "--by", choices=("topics", "bundles"), default="topics", help="which series (topics)"
    )
    group.add_argument(
        "--broker-label",
        default="",
        metavar="LABEL",
        help=(
            "the label that names the broker (the first that exists of pod, "
            "kubernetes_pod_name, instance and broker)"
        ),
    )
    common.repeated(
        group,
        "--broker",
        "VALUE=HOST:PORT",
        "the broker's id in the cluster by a value of that label; may be repeated (a value "
        "without a port gets :8080)",
    )


def _add_bundle_arguments(group: argparse._ArgumentGroup) -> None:
    common.file(
        group,
        "--bundles",
        'JSON: {"tenant/namespace": 16}, or boundaries ["0x00000000", …] for the number; '
        "without it, --admin-url is asked",
    )
    common.number(
        group,
        "--default-bundles",
        "N",
        count,
        4,
        ("number of bundles of a namespace that neither of them has"),
    )


def _add_prometheus_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--prometheus-token-file", default="", metavar="FILE", help="a bearer token")
    group.add_argument(
        "--prometheus-user-file", default="", metavar="FILE", help="user:password, in one line"
    )
    group.add_argument(
        "--prometheus-ca", default="", metavar="FILE", help="the authorities to trust for https://"
    )
    group.add_argument(
        "--prometheus-cert", default="", metavar="FILE", help="a certificate to show"
    )
    group.add_argument("--prometheus-key", default="", metavar="FILE", help="its key")
    common.number(
        group,
        "--prometheus-timeout",
        "TIME",
        some_time,
        120.0,
        "how long a response may take; after that, queries become smaller",
        "s",
    )
