"""Arguments of ``counterpoise storage``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.numbers import count
from counterpoise.app.times import seconds

DESCRIPTION = "Shows what a Pulsar cluster stores in Apache BookKeeper, and changes nothing."

EPILOG = """\
examples:
  counterpoise storage ledgers --metadata zk:zk-1:2181 --topic orders
  counterpoise storage cursors --metadata zk:zk-1:2181 --topic persistent://shop/eu/orders
  counterpoise storage entries --metadata zk:zk-1:2181 --topic orders --from 17:40 --count 20
  counterpoise storage entries --metadata zk:zk-1:2181 --ledger 17
  counterpoise storage space --metadata zk:zk-1:2181 --by namespace
  counterpoise storage bookies --metadata zk:zk-1:2181
  counterpoise storage replication --metadata zk:zk-1:2181
  counterpoise storage orphans --metadata zk:zk-1:2181 --parquet orphans.parquet
  counterpoise storage entries --metadata zk:zk-1:2181 --ledger 17 --conf broker.conf

--metadata is metadataStoreUrl of your brokers, with its chroot if it has one. Nodes and bookies are
only read: no ledger is fenced, no node is written. Bookies are reached by TLS if --conf or --set
say so as for brokers: bookkeeperTLSClientAuthentication=true, bookkeeperTLSTrustCertsFilePath, and
bookkeeperTLSCertificateFilePath and bookkeeperTLSKeyFilePath where bookies ask for a certificate.

Exit status: 0, 2 for an error to correct, which is said in a sentence; 3 where `entries` met one
that cannot be read, `replication` a ledger at risk, or `orphans` an orphan.
"""

SUBJECTS = {
    "ledgers": "ledgers of a topic, or of the whole cluster",
    "cursors": "subscriptions of a topic, with their backlogs",
    "entries": "messages of a topic or of a ledger, decoded",
    "space": "who holds space",
    "bookies": "the bookies, and what each stores",
    "replication": "ledgers that have lost copies",
    "orphans": "ledgers of Pulsar that nothing refers to",
}
GROUPINGS = ("tenant", "namespace", "topic", "kind")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``storage``."""
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to show")
    for name, text in SUBJECTS.items():
        subject = inner.add_parser(name, help=text, description=f"Shows {text}.")
        subject.set_defaults(subject=name)
        _add_cluster_arguments(subject)
        if name in ("ledgers", "cursors"):
            subject.add_argument(
                "--topic", metavar="TOPIC", required=name == "cursors", help="of this topic"
            )
        if name == "entries":
            _add_entry_arguments(subject)
        if name == "space":
            subject.add_argument(
                "--by", choices=GROUPINGS, default="topic", help="what to add up by (topic)"
            )
        if name == "orphans":
            subject.add_argument(
                "--grace",
                type=seconds,
                default=3600.0,
                metavar="TIME",
                help=(
                    "ledgers younger than this may be about to be listed by a topic, and are "
                    "counted apart (1h)"
                ),
            )


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metadata",
        required=True,
        metavar="URL",
        help="zk:host:port[,host:port][/chroot], as brokers have it in metadataStoreUrl",
    )
    parser.add_argument(
        "--ledgers-root",
        default="/ledgers",
        metavar="PATH",
        help="where bookies keep the metadata of ledgers (/ledgers)",
    )
    common.flag(parser, "--no-bookies", "ask no bookies: sizes of open ledgers are unknown")
    common.add_conf(parser)
    parser.add_argument(
        "--max-frame-bytes",
        type=count,
        default=5_253_120,
        metavar="N",
        help="the largest response of a bookie, as its nettyMaxFrameSizeBytes (5253120)",
    )
    common.add_json(parser, "the rows")
    common.file(parser, "--parquet", "write the rows into this file instead")


def _add_entry_arguments(parser: argparse.ArgumentParser) -> None:
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument(
        "--topic", metavar="TOPIC", help="entries of this topic, all its ledgers in order"
    )
    whose.add_argument("--ledger", type=int, metavar="ID", help="of this ledger")
    parser.add_argument(
        "--from",
        dest="begin",
        default="",
        metavar="LEDGER:ENTRY",
        help="from this position on (with --ledger: an entry id)",
    )
    common.number(parser, "--count", "N", count, 100, "at most so many messages")
    common.flag(parser, "--payload", "with their payloads, in base64")
