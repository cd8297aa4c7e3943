"""Broker A, one bundle, and the record of it that A shares with everybody."""

import copy
from dataclasses import dataclass, field

from counterpoise.ownership import events
from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.protocol import StateChannel
from counterpoise.ownership.channel.state import ChannelBundle, ChannelPhase
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.ownership.channel.records import A

NAME = "public/default/0x00000000_0x80000000"
CHANGED = events.NodeChanged(f"/service_unit_state/{NAME}", events.NodeChange.APPEARED)
GONE = events.NodeChanged(f"/service_unit_state/{NAME}", events.NodeChange.VANISHED)


@dataclass
class World:
    """Broker A's machine, and the node that it shares with everybody."""

    value: ServiceUnitStateData | None = None
    version: int = 0
    garbled: bool = False
    """What stands there is no record."""
    failing: bool = False
    drains: list[str | None] = field(default_factory=list)
    asked: list[events.Command] = field(default_factory=list)
    alarm: bool = False
    alarm_s: float = 0.0
    """What it was set to last."""
    alarms: int = 0
    """How often the alarm was set."""
    prepares: int = 0
    reports: int = 0
    """How often it was reported that all is closed."""
    doubted: bool = False
    """A session was lost, and the record was not read since."""
    reads: bool = False
    """The record is being read, and nothing was lost since that began."""

    def __post_init__(self) -> None:
        me = NamespaceEphemeralData("pulsar://a:6650", f"http://{A}")
        self.protocol = StateChannel(OwnershipOptions(me), lambda: 7)
        self.state: ChannelBundle = self.protocol.new(NAME)

    def copy(self) -> "World":
        """Another world that is as this one."""
        made = copy.copy(self)
        made.drains, made.asked = [*self.drains], [*self.asked]
        return made

    def write(self, data: ServiceUnitStateData | None) -> None:
        """Another broker writes the node."""
        self.value, self.version = data, self.version + 1

    def feed(self, record: object) -> None:
        if isinstance(record, events.SessionChanged):
            self.doubted, self.reads = True, False
        elif isinstance(record, events.NodeFound) and self.reads:
            self.doubted = False
        pauses = self.state.phase is ChannelPhase.PAUSING
        self.state, effects = self.protocol.advance(self.state, record)
        timed = isinstance(record, events.TimerFired)
        assert timed or not (pauses and effects), "what fails is not asked sooner"
        for effect in effects:
            self.reads |= isinstance(effect, events.ReadNode)
            if isinstance(effect, events.StartTimer):
                self.alarm = True
                self.alarm_s, self.alarms = effect.after_s, self.alarms + 1
            elif isinstance(effect, events.Prepare):
                self.prepares += 1
            elif isinstance(effect, events.ReportRelease):
                self.reports += 1
            else:
                assert isinstance(effect, events.Command)
                self.asked.append(effect)
        assert len(self.asked) <= 1, "one question at a time"
        assert not self.state.in_progress or self.asked or self.alarm, "it waits for nothing"
        assert not (self.doubted and self.state.serves), "another may own it by now"

    def hear(self, data: ServiceUnitStateData | None) -> None:
        """Another broker writes the node, and A hears that it changed."""
        self.write(data)
        self.feed(CHANGED if data is not None else GONE)

    def answer(self, times: int = 1) -> None:
        """Answer the open question, or ring the alarm; so many times."""
        for _ in range(times):
            self._answer()

    def _answer(self) -> None:
        if not self.asked:
            self.alarm = False
            self.feed(events.TimerFired())
            return
        question = self.asked.pop()
        if isinstance(question, events.CloseTopics):
            self.drains.append(question.destination)
        self.feed(events.CommandFailed("injected") if self.failing else self._answer_to(question))

    def _answer_to(self, question: events.Command) -> object:
        match question:
            case events.ReadNode():
                value = None if self.value is None else self.value.to_json()
                value = b"nonsense" if self.garbled else value
                return events.NodeFound(value, self.version)
            case events.WriteRecord(_, value, version):
                there = self.garbled or self.value is not None
                if version != (self.version if there else None):
                    return events.VersionDiffers()
                after = ServiceUnitStateData.from_json(value)
                assert refusal(self.value, after, Storage.METADATA_STORE) is None
                self.write(after)
                return events.NodeCreated(self.version)
            case events.RemoveNode(_, version):
                if version != self.version:
                    return events.VersionDiffers()
                self.write(None)
                return events.NodeRemoved()
        return events.TopicsClosed()

    def settle(self) -> None:
        """Answer whatever is asked until nothing is."""
        for _ in range(100):
            if not self.state.in_progress:
                return
            self.answer()
        raise AssertionError(f"it never rests: {self.state}")

    def owned(self) -> None:
        self.feed(events.Acquire())
        self.settle()
        assert self.state.serves


def owner() -> World:
    """A owns the bundle."""
    world = World()
    world.owned()
    return world
