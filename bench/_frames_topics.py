"""A client of many topics on one connection: it opens a producer on each and publishes a message.

A topic that the broker closes is looked up and opened again at once, and its next message sent, as
an official client does; what a broker refuses is asked again a moment later.
"""

import heapq
import select
import time
from collections import deque
from collections.abc import Sequence

from bench._frames import FrameConnection, framed
from counterpoise.wire.entry import build
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata

UNANSWERED = 1_000
"""Topics that are being opened at a time."""
AGAIN_S = 0.1
"""The official clients' first pause after a refusal."""
_Type = BaseCommand.Type


class TopicsConnection(FrameConnection):
    """One connection with one producer for each topic; a topic's number is its producer's id."""

    def __init__(self, url: str, topics: Sequence[str]) -> None:
        super().__init__(url)
        self.topics = topics
        self._unsent = bytearray()
        self._sent = [0] * len(topics)

    @property
    def namespace(self) -> str:
        """That of the first topic."""
        return self.topics[0].removeprefix("persistent://").rpartition("/")[0]

    def publish(self, within_s: float) -> list[float]:
        """Open every topic that is not open and publish on each.

        Seconds from the call to each topic's receipt.
        """
        return self._until_received(range(len(self.topics)), time.perf_counter(), within_s)

    def after_close(self, since: float, within_s: float) -> list[float]:
        """Open each topic again when the broker closes it, and publish on it.

        Seconds from ``since`` to each topic's receipt, when all have one.
        """
        return self._until_received((), since, within_s)

    def _until_received(self, numbers: Sequence[int], since: float, within_s: float) -> list[float]:
        self._waiting = deque(numbers)
        self._opening: set[int] = set()
        self._again: list[tuple[float, int]] = []
        took = [0.0] * len(self.topics)
        missing, end = len(self.topics), time.perf_counter() + within_s
        self._socket.setblocking(False)
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while missing:
            now = time.perf_counter()
            if now > end:
                raise SystemExit(f"{missing} of {len(took)} topics got no receipt in {within_s} s")
            while self._again and self._again[0][0] <= now:
                self._waiting.append(heapq.heappop(self._again)[1])
            while self._waiting and len(self._opening) < UNANSWERED:
                self._look_up(self._waiting.popleft())
            poll.modify(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            for _, ready in poll.poll(20):
                if ready & select.POLLOUT:
                    del self._unsent[: self._socket.send(self._unsent)]
                if ready & select.POLLIN:
                    for number in self._received_receipts():
                        if not took[number]:
                            took[number] = time.perf_counter() - since
                            missing -= 1
        self._socket.setblocking(True)
        return took

    def _look_up(self, number: int) -> None:
        self._opening.add(number)
        lookup = {"topic": self.topics[number], "request_id": number}
        self._write(BaseCommand(type=_Type.LOOKUP, lookup_topic=lookup))

    def _received_receipts(self) -> list[int]:
        """Take what has come one step on; the topics whose message is acknowledged."""
        receipts = []
        for command in self._read_once():
            match command.type:
                case _Type.LOOKUP_RESPONSE:
                    answer = command.lookup_topic_response
                    if answer.response == answer.Connect:
                        self._open(answer.request_id)
                    else:
                        self._refused(answer.request_id)
                case _Type.PRODUCER_SUCCESS:
                    self._send(command.producer_success.request_id)
                case _Type.SEND_RECEIPT:
                    self._opening.discard(command.send_receipt.producer_id)
                    receipts.append(command.send_receipt.producer_id)
                case _Type.ERROR:
                    self._refused(command.error.request_id)
                case _Type.SEND_ERROR:
                    self._refused(command.send_error.producer_id)
                case _Type.CLOSE_PRODUCER:
                    self._waiting.append(command.close_producer.producer_id)
                case _Type.PING:
                    self._write(BaseCommand(type=_Type.PONG, pong={}))
                case _Type.PONG:  # a broker that reads nothing for a while says that it lives
                    pass
                case other:
                    raise SystemExit(f"unexpected: {_Type.Name(other)}")
        return receipts

    def _open(self, number: int) -> None:
        fields = {"topic": self.topics[number], "producer_id": number, "request_id": number}
        self._write(BaseCommand(type=_Type.PRODUCER, producer=fields))

    def _send(self, number: int) -> None:
        self._sent[number] += 1
        sequence_id = self._sent[number]
        metadata = MessageMetadata(
            producer_name="topics", sequence_id=sequence_id, publish_time=int(time.time() * 1000)
        )
        send = {"producer_id": number, "sequence_id": sequence_id}
        self._write(BaseCommand(type=_Type.SEND, send=send), build(metadata, b"x" * 100))

    def _refused(self, number: int) -> None:
        self._opening.discard(number)
        heapq.heappush(self._again, (time.perf_counter() + AGAIN_S, number))

    def _write(self, command: BaseCommand, entry: bytes = b"") -> None:
        self._unsent += framed(command, entry)
