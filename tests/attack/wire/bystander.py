"""A client that does nothing wrong: publishes, consumes, and times each round.

A process of its own (``python -m tests.attack.wire.bystander URL PID``), so that the attackers'
work does not count as the broker's. It goes on until its standard input ends, then prints what it
saw. Time in which the broker (process ``PID``), or the bystander, waited for a processor does not
count: a gap is what it would have been on a free machine.
"""

import contextlib
import json
import os
import select
import socket
import sys
import time
from pathlib import Path

from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

TOPIC = "persistent://public/default/bystander"
PAUSE_S = 0.005
PATIENCE_S = 30.0
LAST_ROUNDS = 3
"""After the attack: however short it was, what it left behind is met."""


def main() -> int:
    """Work until asked to stop; print one JSON object."""
    worst_s, late_s, rounds, problem = 0.0, 0.0, 0, ""
    try:
        client = RawClient(sys.argv[1], PATIENCE_S)
        client.connect()
        look_up(client, TOPIC)
        client.produce(TOPIC)
        client.subscribe(TOPIC, sub_type=0)
        client.command("flow", consumer_id=0, message_permits=1_000_000)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], 0)[0] or os.read(0, 1):
            began, stolen_s = time.monotonic(), _stolen_s()
            _round(client, rounds)
            waited_s = time.monotonic() - began
            worst_s = max(worst_s, waited_s - (_stolen_s() - stolen_s))
            rounds += 1
            slept = time.monotonic()
            select.select([sys.stdin], [], [], PAUSE_S)
            late_s = max(late_s, time.monotonic() - slept - PAUSE_S)
        for _ in range(LAST_ROUNDS):
            _round(client, rounds)
            rounds += 1
    except (OSError, AssertionError) as error:
        problem = f"after {rounds} rounds: {type(error).__name__}: {error}"
        worst_s = max(worst_s, PATIENCE_S if isinstance(error, socket.timeout) else 0.0)
    sys.stdout.write(
        json.dumps({"worst_s": worst_s, "late_s": late_s, "rounds": rounds, "problem": problem})
        + "\n"
    )
    return 0


def _stolen_s() -> float:
    """For how long the broker's loop and this process have waited for a processor, ever."""
    own, broker = os.getpid(), int(sys.argv[2])
    stats = (Path(f"/proc/{each}/task/{each}/schedstat") for each in (own, broker))
    with contextlib.suppress(OSError):
        return sum(int(each.read_text().split()[1]) for each in stats) / 1e9
    return 0.0


def look_up(client: RawClient, topic: str) -> None:
    """Let the broker take the topic's bundle, as every client does first."""
    client.command("lookup_topic", topic=topic, request_id=1)
    answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
    assert answer.response == answer.Connect, answer


def _round(client: RawClient, number: int) -> None:
    """Publish one message; it must be stored, delivered once and in order."""
    client.send(frames.send(0, number, frames.entry(b"%d" % number)))
    left = {Type.SEND_RECEIPT, Type.MESSAGE}
    while left:
        command, entry = client.receive_with_entry()
        if command.type in (Type.PING, Type.PONG):
            _answer(client, command)
            continue
        assert command.type in left, f"{command} came instead of {left}"
        left.discard(command.type)
        if command.type == Type.SEND_RECEIPT:
            assert command.send_receipt.sequence_id == number, f"receipt {command.send_receipt}"
        else:
            assert entry.endswith(b"%d" % number), f"message {entry!r} instead of {number}"
            id_ = command.message.message_id
            client.command(
                "ack",
                consumer_id=0,
                ack_type=0,
                message_id=[{"ledger_id": id_.ledger_id, "entry_id": id_.entry_id}],
            )


def _answer(client: RawClient, command: BaseCommand) -> None:
    if command.type == Type.PING:
        client.command("pong")


if __name__ == "__main__":
    sys.exit(main())
