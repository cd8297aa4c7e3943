"""Arguments of ``counterpoise console``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.arguments.rules import usual

DESCRIPTION = "Serve a page that shows a cluster's brokers, bundles and decisions, live."

EPILOG = """\
examples:
  counterpoise console --admin-url http://127.0.0.1:8080
      a page about the cluster of that broker, ours or Apache Pulsar's
  counterpoise console --admin-url http://broker-1:8080,http://broker-2:8080 --port 8000
      several addresses are tried in turn
  counterpoise console --admin-url https://broker-1:8443 --tls-trust-cert-path ca.pem \\
      --auth-plugin token --auth-params file:///etc/pulsar/admin.token
      by TLS, in the role of that token
  counterpoise console --fleet fleet.toml --port 8000
      several clusters side by side, and /metrics of all of them

Everything comes from the admin API. The page needs no other network: nothing is loaded from
elsewhere. Ctrl-C or SIGTERM ends it.
"""

_OF_ONE_CLUSTER = (
    "admin_url",
    "history",
    "backtests",
    "acts",
    "conf",
    "settings",
    "token_file",
    "auth_plugin",
    "auth_params",
    "tls_trust_cert_path",
    "tls_allow_insecure",
    "tls_enable_hostname_verification",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``console``."""
    common.add_admin_url(parser, required=False)
    common.add_fleet(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: free)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a host name under which browsers may open the page, besides addresses and localhost",
    )
    common.number(parser, "--every", "SECONDS", float, 2.0, "between two looks")
    parser.add_argument(
        "--history",
        default="",
        metavar="URI",
        help="the history of a balancer of that cluster, whose rounds are shown",
    )
    common.repeated(
        parser,
        "--backtests",
        "FILE",
        "results of 'counterpoise backtest --json' to compare; may be repeated",
    )
    common.flag(
        parser,
        "--acts",
        "let every visitor act with the console's credentials (the default only on loopback)",
    )
    common.flag(parser, "--json", "print the address as one JSON line")
    common.add_conf(parser)
    common.add_credentials(parser)
    parser.add_argument(
        "--token-file", metavar="FILE", help="the same as --auth-params with this token file"
    )
    parser.set_defaults(idle_with_fleet=usual(parser, _OF_ONE_CLUSTER))
