"""A broker's responses on one connection, recorded and replayed, to be compared."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.base_pb2 import BaseCommand

AnswerKey = tuple[str, int, int]
"""What a response is about, by which the recorded and the replayed one are matched.

One of ``("send", producer id, sequence id)``, ``("message", consumer id, 0)`` and ``("request",
request id, 0)``; CONNECTED has ``("request", 0, -1)``."""
Position = tuple[int, int]
"""A message's ledger id and entry id."""
_UNASKED: Final = (BaseCommand.CLOSE_PRODUCER, BaseCommand.CLOSE_CONSUMER)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a replay compares of one response of a broker, or of one delivered message."""

    key: AnswerKey
    outcome: str
    """``done``, or the name of the error."""
    position: Position | None = None
    """The position of the message that a receipt or a delivery is about."""


class AnswerLog:
    """The recorded and the replayed responses of one connection, to be compared."""

    def __init__(self) -> None:
        self.then: defaultdict[AnswerKey, list[Answer]] = defaultdict(list)
        """The recorded responses up to the present record."""
        self.now: defaultdict[AnswerKey, list[Answer]] = defaultdict(list)
        """The responses in the replay so far."""
        self.unsent = 0
        """How many commands were not sent, since the broker had disconnected."""
        self._given_up: Counter[AnswerKey] = Counter()
        self._names: dict[tuple[str, int], str] = {}

    def name_peers(self, command: BaseCommand) -> None:
        """Remember the topic or subscription of the producer or consumer that a command opens."""
        if command.type == BaseCommand.PRODUCER:
            opened = command.producer
            self._names["send", opened.producer_id] = f"a producer of {opened.topic}"
        elif command.type == BaseCommand.SUBSCRIBE:
            request = command.subscribe
            self._names["message", request.consumer_id] = (
                f"{request.subscription} of {request.topic}"
            )

    def missing(self, key: AnswerKey) -> bool:
        """Whether responses with this key are missing: recorded, not replayed, not given up."""
        return len(self.now[key]) < len(self.then[key]) - self._given_up[key]

    def give_up(self, key: AnswerKey) -> None:
        """Stop waiting for the missing responses with this key."""
        if self.missing(key):
            self._given_up[key] = len(self.then[key]) - len(self.now[key])

    def counterpart(self, key: AnswerKey) -> Answer | None:
        """Return the replayed response that matches the last recorded one with this key.

        None if it has not come.
        """
        at = len(self.then[key]) - 1
        return self.now[key][at] if at < len(self.now[key]) else None

    def differences(self, positions: Mapping[Position, Position]) -> Iterator[str]:
        """The differences, one sentence each; ``positions`` maps recorded to replayed positions."""
        if self.unsent:
            yield f"the broker disconnected now; {self.unsent} commands could not be sent"
        for key in sorted({*self.then, *self.now}):
            then, now = self.then[key], self.now[key]
            name = self._name(key)
            if key[0] == "message":
                if len(then) != len(now):
                    yield f"{name} got {len(then)} messages then, {len(now)} now"
                elif [positions.get(each.position or (0, 0)) for each in then] != [
                    each.position for each in now
                ]:
                    yield f"{name} got its {len(then)} messages in another order now"
                continue
            before, after = _outcomes(then), _outcomes(now)
            if before != after:
                yield f"{name} was answered with {before} then, with {after} now"

    def _name(self, key: AnswerKey) -> str:
        kind, number, sequence = key
        known = self._names.get((kind, number), f"{kind} {number}")
        return f"message {sequence} of {known}" if kind == "send" else known


def _outcomes(answers: list[Answer]) -> str:
    return ", ".join(each.outcome for each in answers) or "nothing"


def answer_of(command: BaseCommand) -> Answer | None:
    """Read a broker's command as a response to compare; None if it is none."""
    if command.type == BaseCommand.SEND_RECEIPT:
        receipt = command.send_receipt
        key = ("send", receipt.producer_id, receipt.sequence_id)
        return Answer(key, "done", (receipt.message_id.ledger_id, receipt.message_id.entry_id))
    if command.type == BaseCommand.SEND_ERROR:
        refused = command.send_error
        key = ("send", refused.producer_id, refused.sequence_id)
        return Answer(key, ServerError(refused.error).name)
    if command.type == BaseCommand.MESSAGE:
        message = command.message
        at = (message.message_id.ledger_id, message.message_id.entry_id)
        return Answer(("message", message.consumer_id, 0), "done", at)
    if command.type == BaseCommand.CONNECTED:
        return Answer(("request", 0, -1), "done")
    if command.type in _UNASKED:
        return None
    for about, value in command.ListFields():
        if about.message_type is None or "request_id" not in value.DESCRIPTOR.fields_by_name:
            continue
        has_error = "error" in value.DESCRIPTOR.fields_by_name and value.HasField("error")
        outcome = ServerError(value.error).name if has_error else "done"
        return Answer(("request", value.request_id, 0), outcome)
    return None
