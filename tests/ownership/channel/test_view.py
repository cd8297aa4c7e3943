"""The table that readers of the state topic keep: everybody's is the same."""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.channel.view import ChannelMessage, ChannelView

BUNDLE = "t/ns/0x00000000_0xffffffff"
BROKERS = ("a:1", "b:1")


@st.composite
def records(draw: st.DrawFn) -> ServiceUnitStateData:
    destination, source = (draw(st.sampled_from((None, *BROKERS))) for _ in "ds")
    state = draw(st.sampled_from(ServiceUnitState))
    # Each state with the brokers that it needs; what lacks them is the matter of `test_sense.py`.
    if state in (ServiceUnitState.OWNED, ServiceUnitState.ASSIGNING, ServiceUnitState.INIT):
        destination = destination or BROKERS[0]
    elif state is not ServiceUnitState.FREE:
        source = source or BROKERS[0]
    return ServiceUnitStateData(
        state,
        destination,
        source,
        force=draw(st.sampled_from((False, False, True))),
        timestamp_ms=draw(st.integers(0, 9)),
        version=draw(st.integers(1, 5)),
    )


values = st.one_of(records().map(ServiceUnitStateData.to_json), st.none(), st.just(b"no record"))
messages = st.builds(
    ChannelMessage,
    st.sampled_from((BUNDLE, "t/ns2/0x00000000_0xffffffff")),
    values,
    st.one_of(st.none(), st.integers(1, 5)),
)
Heard = list[ChannelMessage]


def after(heard: Heard) -> dict[str, bytes]:
    view = ChannelView()
    for each in heard:
        view.hear(each)
    return dict(view.values)


@given(st.lists(messages, max_size=12))
def test_a_message_counts_if_pulsars_rules_let_it_follow(heard: Heard) -> None:
    view = ChannelView()
    for each in heard:
        stood = view.value(each.bundle)
        before = None if stood is None else ServiceUnitStateData.from_json(stood)
        why = view.hear(each)
        if each.value == b"no record":
            assert why
        elif each.value is None:
            about = before is None or each.removes in (None, before.version)
            assert (why is None) is about
        else:
            said = ServiceUnitStateData.from_json(each.value)
            assert why == refusal(before, said, Storage.SYSTEM_TOPIC)
        if why is not None:
            assert view.value(each.bundle) == stood, "what does not count changes nothing"
        else:
            assert view.value(each.bundle) == each.value


@given(st.lists(messages, max_size=10), st.data())
def test_a_record_that_comes_twice_counts_once(heard: Heard, data: st.DataObject) -> None:
    """A message that is sent again, because its receipt was lost, changes nothing."""
    written = [each for each in heard if each.value is not None]
    if not written:
        return
    view = ChannelView()
    for each in heard:
        counted = view.hear(each) is None
        if counted and each.value is not None and data.draw(st.booleans()):
            before = dict(view.values)
            assert view.hear(each) is not None
            assert dict(view.values) == before
    assert dict(view.values) == after(heard)


@given(st.lists(messages, max_size=12), st.integers(0, 12))
def test_a_reader_that_begins_again_believes_the_same(heard: Heard, cut: int) -> None:
    """A link that was lost is made again, and begins with an empty table."""
    assert after(heard[:cut]) == after(heard[:cut])
    view = ChannelView()
    for each in [*heard[:cut]]:
        view.hear(each)
    again = ChannelView()
    for each in heard:
        again.hear(each)
    for each in heard[cut:]:
        view.hear(each)
    assert dict(view.values) == dict(again.values)


def test_a_tombstone_of_ours_is_about_one_record() -> None:
    free = ServiceUnitStateData(ServiceUnitState.FREE, None, "a:1", version=1)
    taken = ServiceUnitStateData(ServiceUnitState.ASSIGNING, "b:1", version=2)
    view = ChannelView()
    for record in (free, taken):
        assert view.hear(ChannelMessage(BUNDLE, record.to_json())) is None
    assert view.hear(ChannelMessage(BUNDLE, None, removes=1)) is not None
    assert view.version(BUNDLE) == 2
    assert view.hear(ChannelMessage(BUNDLE, None)) is None, "Pulsar's removes whatever stands"
    assert view.version(BUNDLE) is None
