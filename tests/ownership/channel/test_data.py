import pytest

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData, next_version
from counterpoise.ownership.records import InvalidRecord
from tests.ownership.channel.records import A, B, record


def test_a_record_reads_and_writes_pulsars_json() -> None:
    text = (
        b'{"state":"Splitting","sourceBroker":"a:8080","splitServiceUnitToDestBroker":'
        b'{"0x00000000_0x40000000":null,"0x40000000_0x80000000":"b:8080"},"force":false,'
        b'"timestamp":1700000000000,"versionId":3}'
    )
    read = ServiceUnitStateData.from_json(text)
    assert read.state is ServiceUnitState.SPLITTING
    assert (read.destination, read.source, read.version) == (None, A, 3)
    assert read.children == {"0x00000000_0x40000000": None, "0x40000000_0x80000000": B}
    assert read.to_json() == text


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b'{"state":"Owned"}',
        b'{"state":"Owned","dstBroker":" "}',
        b'{"state":"Owner","dstBroker":"a"}',
        b'{"state":"Owned","dstBroker":7}',
        b'{"state":"Owned","dstBroker":"a","versionId":9223372036854775808}',
        b'{"state":"Owned","dstBroker":"a","versionId":"1"}',
        b'{"state":"Owned","dstBroker":"a","timestamp":1.5}',
        b'{"state":"Splitting","sourceBroker":"a","splitServiceUnitToDestBroker":[1]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_record_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRecord):
        ServiceUnitStateData.from_json(text)


def test_numbers_that_are_left_out_are_zero() -> None:
    read = ServiceUnitStateData.from_json(b'{"state":"Owned","dstBroker":"a:8080"}')
    assert read == ServiceUnitStateData(ServiceUnitState.OWNED, A, timestamp_ms=0, version=0)


def test_a_free_bundle_may_name_no_broker() -> None:
    assert ServiceUnitStateData.from_json(b'{"state":"Free"}').source is None


def test_versions_wrap_as_javas_do() -> None:
    assert next_version(None) == 1
    assert next_version(record(ServiceUnitState.OWNED, A, version=1)) == 2
    last = b'{"state":"Owned","dstBroker":"a:8080","versionId":9223372036854775807}'
    assert next_version(ServiceUnitStateData.from_json(last)) == -9223372036854775808
