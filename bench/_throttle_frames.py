"""Producers that always have something to send, as frames made beforehand; one JSON object.

The same run as `_throttle_client`, for rates at which the official client in Python is the limit
itself: one loop, no callbacks, and nothing made while the clock runs. Each producer has as many
messages under way as the official clients' queue holds. The neighbour publishes one message at a
time and notes how long each took.
"""

import argparse
import json
import select
import threading
import time
import uuid

from bench import _frames
from bench._admin import call
from bench._frames import FrameClient, framed, sends
from bench._throttle_client import SLOTS_A_SECOND, arguments, set_rate
from counterpoise.wire.proto.base_pb2 import BaseCommand

WINDOW = 1_000
"""Messages that a producer has under way: the official clients' ``maxPendingMessages``."""
ROW = 10
"""Frames that a producer writes before the next one of its connection does."""
NEIGHBOUR = 100
NEIGHBOUR_RATE = 100

_Type = BaseCommand.Type


class Flood:
    """One producer, and when its messages were acknowledged."""

    def __init__(self, producer_id: int, size: int, batch: int, slots: int) -> None:
        made = sends(0, 1, batch=batch, producer_id=producer_id, content=b"x" * size)
        self._row = bytes(made.data) * ROW
        self._frame = len(made.data)
        self.batch = batch
        self.under_way = 0
        self.resting = False
        self.acknowledged = [0] * slots

    def more(self) -> bytes:
        """Some of what it may send now."""
        if self.resting:
            return b""
        count = min(ROW, max(0, WINDOW - self.under_way) // self.batch)
        self.under_way += count * self.batch
        return self._row[: count * self._frame]


class Neighbour:
    """One message at a time, at a rate of its own."""

    def __init__(self) -> None:
        self.frame = bytes(sends(0, 1, batch=1, producer_id=NEIGHBOUR).data)
        self.due = 0.0
        self.waiting = False
        self.took_ms: list[float] = []

    def receipt(self, now: float) -> None:
        # From when it was due: a message that waits for the one before it is late, too.
        self.took_ms.append((now - self.due) * 1e3)
        self.due += 1 / NEIGHBOUR_RATE
        self.waiting = False


class Wire(FrameClient):
    """A connection with several producers."""

    def __init__(self, url: str, topic: str) -> None:
        super().__init__(url, topic)
        self.floods: dict[int, Flood] = {}
        self.neighbour: Neighbour | None = None
        self.unsent = memoryview(b"")

    def begin(self) -> int:
        self._socket.setblocking(False)
        return self._socket.fileno()

    def fill(self, now: float) -> bool:
        """Have something to write, if anybody has."""
        neighbour = self.neighbour
        if neighbour is not None and not neighbour.waiting and neighbour.due <= now:
            neighbour.waiting = True
            self.unsent = memoryview(bytes(self.unsent) + neighbour.frame)
        if not self.unsent:
            rows = []
            while found := [row for each in self.floods.values() if (row := each.more())]:
                rows += found
            self.unsent = memoryview(b"".join(rows))
        return bool(self.unsent)

    def write(self) -> None:
        self.unsent = self.unsent[self._socket.send(self.unsent) :]

    def read(self, slot_of: "Clock") -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise SystemExit("the broker closed the connection")
        data = self._received + data
        slot, now = slot_of.slot(), time.perf_counter()
        at, end = 0, len(data)
        while at + 8 <= end:
            total, size = _frames._SIZES.unpack_from(data, at)
            if at + 4 + total > end:
                break
            command = BaseCommand.FromString(data[at + 8 : at + 8 + size])
            at += 4 + total
            if command.type == _Type.SEND_RECEIPT:
                self._receipt(command.send_receipt.producer_id, slot, now)
            elif command.type == _Type.PING:
                self.unsent = memoryview(
                    bytes(self.unsent) + framed(BaseCommand(type=_Type.PONG, pong={}))
                )
            else:
                raise SystemExit(f"a SEND was answered with {command!r}")
        self._received = data[at:]

    def _receipt(self, producer_id: int, slot: int, now: float) -> None:
        if producer_id == NEIGHBOUR:
            assert self.neighbour is not None
            self.neighbour.receipt(now)
            return
        flood = self.floods[producer_id]
        flood.under_way -= flood.batch
        if 0 <= slot < len(flood.acknowledged):
            flood.acknowledged[slot] += flood.batch


class Clock:
    """Hundredths of a second since the beginning, which may be yet to come."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.in_flight = 0

    def slot(self) -> int:
        if self.began is None:
            return -1
        return int((time.perf_counter() - self.began) * SLOTS_A_SECOND)


def wires_of(args: argparse.Namespace, topic: str, beside: str) -> list[Wire]:
    slots = int(args.seconds * SLOTS_A_SECOND)
    wires: list[Wire] = []
    for number in range(args.producers):
        if not wires or not args.shared:
            wires.append(Wire(args.url, topic))
        else:
            wires[0].open_producer(topic, number)
        wire = wires[-1]
        # The first producer of a connection has the id 0.
        producer_id = number if args.shared else 0
        if not args.idle:
            wire.floods[producer_id] = Flood(producer_id, args.size, args.batch, slots)
    # In a namespace whose limit it keeps to, on a throttled producer's connection or its own.
    if args.neighbour == "own":
        wires.append(Wire(args.url, beside))
    wires[-1 if args.neighbour == "own" else 0].open_producer(beside, NEIGHBOUR)
    wires[-1 if args.neighbour == "own" else 0].neighbour = Neighbour()
    return wires


def measure(args: argparse.Namespace) -> dict[str, object]:
    made = uuid.uuid4().hex[:8]
    limited, free = f"public/throttle-{made}", f"public/beside-{made}"
    for namespace in (limited, free):
        path = f"{args.admin_url}/admin/v2/namespaces/{namespace}"
        call("PUT", path, {"bundles": {"numBundles": 1}})
    set_rate(args.admin_url, free, 10 * NEIGHBOUR_RATE, 0)
    wires = wires_of(args, f"persistent://{limited}/t", f"persistent://{free}/t")
    floods = [each for wire in wires for each in wire.floods.values()]
    clock = Clock()

    def limit() -> None:
        if args.midway:
            time.sleep(1)
        set_rate(args.admin_url, limited, args.messages, args.bytes)
        if not args.midway:
            return
        clock.in_flight = sum(each.under_way for each in floods)
        clock.began = time.perf_counter()

    setting = threading.Thread(target=limit, daemon=True)
    setting.start()
    if not args.midway:
        setting.join()
        time.sleep(1.5)  # a broker may hear of it later than this client
        clock.began = time.perf_counter()
    run(wires, clock, args.seconds)
    neighbours = [wire.neighbour for wire in wires if wire.neighbour is not None]
    return {
        "acknowledged": [each.acknowledged for each in floods],
        "neighbour_ms": neighbours[0].took_ms,
        "in_flight": clock.in_flight,
    }


def run(wires: list[Wire], clock: Clock, seconds: float) -> None:
    poll = select.poll()
    by_fd = {wire.begin(): wire for wire in wires}
    asked = dict.fromkeys(by_fd, select.POLLIN)
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    now = time.perf_counter()
    for wire in wires:
        if wire.neighbour is not None:
            wire.neighbour.due = now
    while clock.began is None or now < clock.began + seconds:
        for fd, wire in by_fd.items():
            wanted = select.POLLIN | (select.POLLOUT if wire.fill(now) else 0)
            if asked[fd] != wanted:
                asked[fd] = wanted
                poll.modify(fd, wanted)
        for fd, ready in poll.poll(2):
            if ready & select.POLLIN:
                by_fd[fd].read(clock)
            if ready & select.POLLOUT and by_fd[fd].unsent:
                by_fd[fd].write()
        now = time.perf_counter()


def main() -> None:
    print(json.dumps(measure(arguments().parse_args())), flush=True)


if __name__ == "__main__":
    main()
