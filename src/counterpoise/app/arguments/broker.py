"""Arguments of ``counterpoise broker``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Run one broker of a Pulsar cluster until SIGTERM or Ctrl-C."

EPILOG = """\
examples:
  counterpoise broker --set metadataStoreUrl=zk:127.0.0.1:2181 --data /var/lib/counterpoise
      joins (or founds) the cluster on that ZooKeeper
  counterpoise broker --conf broker.conf --set webServicePort=0 --set brokerServicePort=0
      reads Apache Pulsar's broker.conf; port 0 takes a free one

When clients may connect, one line is printed: the word ready and a JSON object with id,
service_url and admin_url. Messages go to files below --data, which all brokers of a cluster
share, or to the store that ledgerStoreUrl names; without either they live in memory and are gone
with the broker.
SIGTERM and Ctrl-C hand every bundle to another broker first.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``broker``."""
    common.add_conf(parser)
    common.file(
        parser,
        "--data",
        "where the cluster's messages are stored; short for --set ledgerStoreUrl=file:///DIR",
        "DIR",
    )
    common.file(
        parser,
        "--balance",
        "while it leads, run 'counterpoise balance --execute' with its history in DIR; the "
        "brokers then shed no load by themselves (loadBalancerSheddingEnabled=false)",
        "DIR",
    )
    common.add_balance_option(parser)
    common.add_log_level(parser)
