"""``counterpoise replay``: repeat what clients of a recorded cluster did."""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from counterpoise import Cluster
from counterpoise.app.errors import UserError
from counterpoise.app.faults.fault_control import fault_of
from counterpoise.app.recordings.replay import Replay, ReplayOptions
from counterpoise.faults import Fault
from counterpoise.faults.errors import InvalidRecording
from counterpoise.faults.recording import HEADER, read_recording

SHOWN_MAX = 50


def run(args: argparse.Namespace) -> int:
    """Run ``replay``: replay a recording and print the differences; status 1 if there are any."""
    for name in ("speed", "patience"):
        # `not … > 0` refuses NaN too, with which every comparison is false.
        if getattr(args, name) is not None and not getattr(args, name) > 0:
            raise UserError(f"--{name} {getattr(args, name):g}: must be more than 0.")
    faults = [_fault(text) for text in args.fault]
    if faults and args.url:
        raise UserError("--fault is for the fresh cluster: leave --url out, or set it over HTTP.")
    try:
        # Read all of the file first, so that damage is found before anything is replayed.
        with args.file.open("rb") as file:
            records, whole = 0, len(HEADER)
            for record in read_recording(file):
                records, whole = records + 1, whole + record.size
        if rest := args.file.stat().st_size - whole:
            sys.stderr.write(
                f"counterpoise: the last {rest} bytes of {args.file} are no whole record: the "
                "recording was cut off there. They are left out.\n"
            )
        with _target(args.url, faults) as url, args.file.open("rb") as file:
            parts = urlsplit(url)
            options = ReplayOptions(
                parts.hostname or "127.0.0.1", parts.port or 6650, args.speed, args.patience
            )
            replay = Replay(options)
            asyncio.run(replay.run(read_recording(file)))
    except (InvalidRecording, OSError) as error:
        raise UserError(f"cannot replay {args.file}: {error}") from None
    differences = replay.differences()
    out = sys.stdout
    out.write(
        f"{records} records: {replay.commands} commands sent again on {len(replay.logs)} "
        f"connections, {len(differences) or 'no'} differences\n"
    )
    out.writelines(f"  {each}\n" for each in differences[:SHOWN_MAX])
    if len(differences) > SHOWN_MAX:
        out.write(f"  and {len(differences) - SHOWN_MAX} more\n")
    return 1 if differences else 0


@contextlib.contextmanager
def _target(url: str | None, faults: Sequence[Fault]) -> Iterator[str]:
    """Yield ``url``; if None, run a new cluster with these faults, and yield its service URL."""
    if url is not None:
        if not url.startswith("pulsar://"):
            raise UserError(f"--url {url}: give pulsar://host:port of one broker.")
        yield url
        return
    with Cluster(brokers=1) as cluster:
        for each in faults:
            cluster.do(cluster.watch().set(each))
        yield cluster.service_url


def _fault(text: str) -> Fault:
    try:
        return fault_of(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"--fault {text}: {error}") from None
