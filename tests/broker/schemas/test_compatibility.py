"""Which schema may follow which, by Avro's rules and Pulsar's FULL strategy."""

import json

import pytest

from counterpoise.broker.schemas.avro import NotAvro, why_unreadable
from counterpoise.broker.schemas.compatibility import (
    find_version,
    why_incompatible,
    why_invalid,
    why_refused,
)
from counterpoise.broker.schemas.rules import STRATEGIES
from counterpoise.wire.proto.values_pb2 import Schema as Raw
from counterpoise.wire.values import Schema


def record(*fields: object, name: str = "R", **more: object) -> dict[str, object]:
    """A record whose fields are ``(name, type)``, ``(name, type, default)`` or declarations."""
    keys = ("name", "type", "default")
    return {
        "type": "record",
        "name": name,
        "fields": [
            each if isinstance(each, dict) else dict(zip(keys, each, strict=False))  # type: ignore[call-overload]
            for each in fields
        ],
        **more,
    }


def enum(*symbols: str, **more: object) -> dict[str, object]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


OPTIONAL = ["null", "int"]
FOUR = {"type": "fixed", "name": "F", "size": 4}
TREE = record(("left", ["null", "R"]), ("value", "int"))
"""A record that holds itself, and what it says when it holds something else."""
HAS_TWO_FIXED = record(("d", {**FOUR, "name": "E"}), ("e", "E"))
WITH_C = record(("c", enum("A", name="C")), ("d", "C"), name="B")
"""A record in the namespace of what is around it, and a type of that namespace in it."""

RECORD_OF_A = record(("a", "int"))

READABLE = [
    ("int", "int"),
    ("long", "int"),
    ("double", "int"),
    ("double", "float"),
    ("bytes", "string"),
    ("string", "bytes"),
    (OPTIONAL, "int"),
    (OPTIONAL, "null"),
    (["string", "long"], "int"),
    (OPTIONAL, ["int"]),
    ("long", ["int", "long"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
    ({"type": "int", "logicalType": "date"}, "int"),
    (record(("a", "int")), record(("a", "int"), ("b", "int"))),
    (record(("a", "int"), ("b", "int", 1)), record(("a", "int"))),
    (record(("a", OPTIONAL, None)), record()),
    (
        {**record(), "fields": [{"name": "b", "type": "int", "aliases": ["a"]}]},
        record(("a", "int")),
    ),
    # As Avro 1.11.4 answers: records go by their fields, nested ones as well; enums and fixed by
    # their short names; an enum's symbols are looked at when one is read.
    (record(name="N"), record()),
    (record(name="x.N"), record(name="y.N")),
    (record(("x", record(name="I"))), record(("x", record(name="J")))),
    (enum("A"), enum("A", "C", "B")),
    (enum("A"), enum("A", name="n.E")),
    (enum("A", aliases=["F"]), enum("A", name="F")),
    (["null", enum("A", aliases=["F"])], enum("A", name="F")),
    (["null", record(("a", "int"), name="N")], record(("a", "int"))),
    (record(name="N", aliases=["R"]), record()),
    (record(name="N", namespace="x"), record(name="x.N")),
    # Where the record's name is an alias, the aliases of its fields count as well.
    (record({"name": "b", "type": "int", "aliases": ["a"]}, name="N", aliases=["R"]), RECORD_OF_A),
    (enum("A", "B"), enum("A")),
    (enum("A", default="A"), enum("A", "B")),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 4}),
    (TREE, TREE),
    # Declared inside of another type, and meant by its name in the next field.
    *(
        [record(("a", {"type": kind, inner: enum("A")}), ("b", "E"))] * 2
        for kind, inner in (("array", "items"), ("map", "values"))
    ),
    # A short name means the type of its own namespace, else the one without a namespace.
    ([enum("A"), record(("e", "E"), name="n.R")],) * 2,
    *(
        ([*before, record(("d", {**FOUR, "name": "n.E"}), ("e", "E"), name="n.R")], HAS_TWO_FIXED)
        for before in ([], [enum("A")])
    ),
    tuple(
        [
            *(record(("b", dict(WITH_C)), name=f"{each}.A") for each in "nk"),
            record(("z", name), name="m.D"),
        ]
        for name in ("n.B", "k.B")
    ),
]

UNREADABLE = [
    ("int", "long", "long is not read as int"),
    ("float", "double", "double is not read as float"),
    ("int", "string", "string is not read as int"),
    ("int", OPTIONAL, "null is not read as int"),
    (OPTIONAL, "string", "no branch of the reader's union reads string"),
    (record(("a", "int"), ("b", "int")), record(("a", "int")), "/b: the writer has no such"),
    (record(("a", "int")), record(("a", "string")), "/a: string is not read as int"),
    (
        # Behind a field that its default stands for.
        record({"name": "new", "type": "int", "default": 0}, ("a", "int")),
        record(("a", "string")),
        "/a: string is not read as int",
    ),
    (
        # Of a record with another name, which is no alias, fields have their own names alone.
        record({"name": "b", "type": "int", "aliases": ["a"]}, name="N"),
        RECORD_OF_A,
        "/b: the writer has no such",
    ),
    (
        record({"name": "b", "type": "int", "aliases": ["a"]}),
        record(("a", "int"), ("b", "int")),
        "/: by the reader's aliases two fields of the writer have one name",
    ),
    (
        # The alias renames the field, so that the reader's field of the old name has none.
        record(("a", "int"), {"name": "b", "type": "int", "aliases": ["a"]}),
        RECORD_OF_A,
        "/a: the writer has no such",
    ),
    (enum("A"), enum("A", name="F"), "the reader expects E, the writer wrote F"),
    (["null", enum("A")], enum("A", name="n.E"), "no branch of the reader's union reads enum n.E"),
    (["null", FOUR], {**FOUR, "name": "n.F"}, "no branch of the reader's union reads fixed n.F"),
    (
        # A branch of the same name decides, though another would do.
        [record(("a", "string")), record(("a", "int"), name="Q")],
        record(("a", "int")),
        "/a: int is not read as string",
    ),
    (
        # What failed in a union is not taken for granted elsewhere.
        record(("u", ["int", record(("a", "int"), name="I")]), ("v", "I")),
        record(("u", "int"), ("v", record(("a", "string"), name="J"))),
        "/v/a: string is not read as int",
    ),
    (
        # Nor that two records match because they were compared, in vain, in another branch.
        [record(("r", record(("a", "int"), name="I")), name="X"), record(("r", "I"), name="Y")],
        record(("r", record(name="J"))),
        "no branch of the reader's union reads record R",
    ),
    *(
        (within(FOUR), within({**FOUR, "size": 5}), f"{at}: the sizes of F differ")
        for within, at in ((lambda it: it, "/"), (lambda it: record(("a", it)), "/a"))
    ),
    (
        {"type": "array", "items": "int"},
        {"type": "array", "items": "long"},
        "/items: long is not read as int",
    ),
    (TREE, record(("left", ["null", "R"]), ("value", "long")), "/value: long is not read"),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE)
def test_readable(reader: object, writer: object) -> None:
    assert why_unreadable(reader, writer) is None


@pytest.mark.parametrize(("reader", "writer", "why"), UNREADABLE)
def test_unreadable(reader: object, writer: object, why: str) -> None:
    assert why in str(why_unreadable(reader, writer))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("nothing", "unknown type 'nothing'"),
        (5, "5 is no type"),
        ({"name": "x"}, "{'name': 'x'} is no type"),
        ({"type": "strange"}, "strange"),
    ],
)
def test_no_schema_at_all(schema: object, why: str) -> None:
    with pytest.raises(NotAvro, match=why):
        why_unreadable(schema, schema)


def avro(declaration: object, kind: int = Raw.Avro) -> Schema:
    return Schema("s", json.dumps(declaration).encode(), kind)


OLD = record(("a", "int"))
WIDER = record(("a", "int"), ("b", "int", 0))
STRICTER = record(("a", "int"), ("b", "int"))


@pytest.mark.parametrize("kind", [Raw.Avro, Raw.Json])
def test_a_producer_must_read_and_be_read(kind: int) -> None:
    assert why_incompatible(avro(OLD, kind), avro(WIDER, kind)) is None
    assert "/b: the writer has no such field" in str(
        why_incompatible(avro(OLD, kind), avro(STRICTER, kind))
    )
    assert "/b: the writer has no such field" in str(
        why_incompatible(avro(STRICTER, kind), avro(OLD, kind))
    )


def test_a_consumer_only_has_to_read() -> None:
    assert why_incompatible(avro(STRICTER), avro(OLD), "BACKWARD") is None
    assert why_incompatible(avro(OLD), avro(STRICTER), "BACKWARD") is not None


def test_types_do_not_mix() -> None:
    assert why_incompatible(avro(OLD, Raw.Json), avro(OLD, Raw.Avro)) == (
        "Incompatible schema: exists schema type JSON, new schema type AVRO"
    )


def test_json_of_another_language_is_let_pass() -> None:
    assert why_incompatible(avro({"id": "x"}, Raw.Json), avro(OLD, Raw.Json)) is None
    assert why_incompatible(avro({"id": "x"}), avro(OLD)) is not None


@pytest.mark.parametrize("strategy", ["BACKWARD", "FORWARD", "FULL"])
def test_json_of_old_java_clients_is_compared_by_its_id_and_with_none_of_another_form(
    strategy: str,
) -> None:
    first, other, unknown = (
        avro(each, Raw.Json)
        for each in ({"type": "object", "id": "x"}, {"type": "object", "id": "y"}, {"id": "x"})
    )
    spaced = Schema("s", first.data + b" ", Raw.Json)
    new = avro(OLD, Raw.Json)
    for pair in ((first, spaced), (first, new), (new, first), (unknown, first), (unknown, new)):
        assert why_incompatible(*pair, strategy) is None
    for pair in ((first, other), (first, unknown), (new, unknown)):
        assert why_incompatible(*pair, strategy) is not None
        assert why_incompatible(*pair, f"{strategy}_TRANSITIVE") is not None


@pytest.mark.parametrize(
    ("strategy", "stricter", "wider"),
    [
        ("FULL", False, False),
        ("BACKWARD", False, True),
        ("FORWARD", True, False),
        ("ALWAYS_COMPATIBLE", True, True),
        ("ALWAYS_INCOMPATIBLE", False, False),
    ],
)
def test_a_strategy_admits_a_field_more_or_a_field_less(
    strategy: str, stricter: bool, wider: bool
) -> None:
    # The stricter one has a field more without a default: it cannot read what the older one wrote.
    assert (why_refused([avro(OLD)], avro(STRICTER), strategy) is None) is stricter
    assert (why_refused([avro(STRICTER)], avro(OLD), strategy) is None) is wider


def test_a_transitive_strategy_compares_with_every_version() -> None:
    versions = [avro(OLD), avro(STRICTER)]
    other = avro({**STRICTER, "name": STRICTER["name"], "doc": "again"})
    assert why_refused(versions, other, "BACKWARD") is None
    assert why_refused(versions, other, "BACKWARD_TRANSITIVE") is not None
    assert why_refused(versions, other, "FORWARD_TRANSITIVE") is None
    # A consumer reads what is written now, except where the strategy is about the past.
    for strategy in STRATEGIES[3:]:
        refused = why_refused(versions, other, strategy, consumer=True) is not None
        assert refused is (strategy in ("BACKWARD_TRANSITIVE", "FULL_TRANSITIVE")), strategy


@pytest.mark.parametrize(
    ("fields", "refusing"),
    [
        # It reads what the newest schema wrote, but not the reverse.
        (("a",), {"ALWAYS_INCOMPATIBLE", "FULL_TRANSITIVE"}),
        # The reverse: the newest reads it, and it reads neither.
        (("a", "b", "c"), {*STRATEGIES[1:]} - {"ALWAYS_COMPATIBLE"}),
        # It reads the newest, and not the one before.
        (("a", "b"), {"ALWAYS_INCOMPATIBLE", "BACKWARD_TRANSITIVE", "FULL_TRANSITIVE"}),
    ],
)
def test_a_consumer_reads_what_is_written_now_or_under_some_strategies_what_ever_was(
    fields: tuple[str, ...], refusing: set[str]
) -> None:
    new = avro(record(*((each, "int") for each in fields)))
    versions = [avro(OLD), avro(STRICTER)]
    refused = {each for each in STRATEGIES[1:] if why_refused(versions, new, each, consumer=True)}
    assert refused == refusing


def test_another_type_is_named_as_pulsar_names_types_whatever_the_strategy() -> None:
    pair = Schema("s", bytes(8), Raw.KeyValue)
    for strategy in {*STRATEGIES[1:]} - {"ALWAYS_COMPATIBLE"}:
        assert why_refused([pair], avro(OLD, Raw.ProtobufNative), strategy) == (
            "Incompatible schema: exists schema type KEY_VALUE, new schema type PROTOBUF_NATIVE"
        )


@pytest.mark.parametrize("kind", [Raw.Avro, Raw.Json, Raw.Protobuf])
def test_documentation_and_aliases_make_no_other_version(kind: int) -> None:
    def declared(**of_field: object) -> Schema:
        return avro(record({"name": "a", "type": "int", **of_field}), kind)

    known = [declared(default=1), declared(order="ignore"), declared()]
    assert find_version(known, declared(aliases=["b"])) == 2
    assert find_version(known, declared(doc="of a", aliases=[])) == 2
    assert find_version(known, declared(doc="of a", default=1)) == 0
    assert find_version(known, declared(default=2)) is None
    assert find_version(known[:2], declared(aliases=["b"])) is None


def pair(*parts: tuple[str, bytes], **properties: str) -> Schema:
    """A KEY_VALUE schema of these types and declarations."""
    data = b"".join(len(each).to_bytes(4) + each for _, each in parts)
    kinds = {f"{name}.schema.type": kind for name, (kind, _) in zip(NAMES, parts, strict=False)}
    return Schema("s", data, Raw.KeyValue, tuple((kinds | properties).items()))


NAMES = ("key", "value")
SMALL, LARGE = (json.dumps(each).encode() for each in (OLD, STRICTER))


@pytest.mark.parametrize(
    ("schema", "is_valid"),
    [
        (Schema("s", b"", Raw.String), True),
        (Schema("s", b"null", Raw.String), True),
        (Schema("s", b"x", Raw.String), False),
        *(
            (Schema("s", data, kind), not data)
            for kind in (Raw.Bool, Raw.Int8, Raw.Double, Raw.Instant, Raw.LocalDateTime)
            for data in (b"", b"null")
        ),
        (avro({"rootMessageTypeName": "p.M"}, Raw.ProtobufNative), True),
        (avro({"rootMessageTypeName": 5}, Raw.ProtobufNative), False),
        (avro([], Raw.ProtobufNative), False),
        (avro(OLD, Raw.Protobuf), True),
        (avro({"type": "object"}, Raw.Protobuf), False),
        (avro({"type": "object"}, Raw.Json), True),
        (avro({"type": "strange"}, Raw.Json), False),
        (avro(["null", "int"]), False),
        (avro(["null", "int"], Raw.Json), True),
        (avro(record(("a", enum("A")), ("b", enum("B")))), False),
        (avro(record(("a", enum("A")), ("b", "E"))), True),
        (avro({"type": "enum", "name": "E"}), False),
        (avro({"type": "fixed", "name": "F", "size": "4"}), False),
        (avro(record(name="1")), False),
        (avro(record(name="a.1")), False),
        (avro(record(name="a.")), False),
        (avro(record(name=None)), False),  # type: ignore[arg-type]
        (avro(record(name="a-b")), False),
        (avro(record(name="a\u00b2")), False),
        (avro(record(name="\U00020000")), False),
        (avro(record(name="_9")), True),
        (avro(record(name="1-$..b")), True),
        (avro(record(name="\u8ba2\u5355")), True),
        (avro(record(name="\u0664")), False),
        (avro({"type": "error", "name": "X", "fields": []}), True),
        (avro({"type": "error", "name": "X"}), False),
        (avro({"type": "array"}), False),
        (avro({"type": "map", "values": ["int", {"type": "array", "items": "R"}]}), False),
        (avro(TREE), True),
        (pair(("AVRO", SMALL), ("STRING", b"")), True),
        (pair(("AVRO", SMALL), ("STRING", b"x")), False),
        (pair(("AVRO", b"{"), ("STRING", b"")), False),
        (pair(("AVRO", SMALL)), False),
        (pair(("BYTES", b"x"), ("BYTES", b"")), True),
        (pair(("NEVER", b""), ("BYTES", b"")), False),
        (Schema("s", bytes(8), Raw.KeyValue), True),
        (Schema("s", bytes(7), Raw.KeyValue), False),
    ],
)
def test_what_is_valid_in_every_part_is_a_schema(schema: Schema, is_valid: bool) -> None:
    assert (why_invalid(schema) is None) is is_valid


def test_an_error_is_a_record() -> None:
    error = {**record(("a", "int")), "type": "error"}
    assert why_incompatible(avro(record(("a", "int"))), avro(error)) is None
    assert why_incompatible(avro(record(("a", "string"))), avro(error)) is not None


@pytest.mark.parametrize("consumer", [False, True])
def test_what_names_no_message_is_refused_with_a_sentence(consumer: bool) -> None:
    # A consumer's schema is not looked at alone, and an earlier version stored any.
    valid, not_valid = (
        avro({"rootMessageTypeName": name}, Raw.ProtobufNative) for name in ("p.M", 5)
    )
    for existing, new in ((valid, not_valid), (not_valid, valid)):
        assert why_refused([existing], new, "FULL", consumer=consumer) == (
            "Not a PROTOBUF_NATIVE schema: it names no message"
        )


@pytest.mark.parametrize("place", [0, 1])
def test_of_a_pair_both_parts_have_to_go_together(place: int) -> None:
    def with_part(kind: str, data: bytes) -> Schema:
        parts = [("AVRO", SMALL), ("AVRO", SMALL)]
        parts[place] = (kind, data)
        return pair(*parts)

    old, new = with_part("AVRO", SMALL), with_part("AVRO", LARGE)
    assert why_incompatible(old, new, "FORWARD") is None
    assert why_incompatible(new, old, "BACKWARD") is None
    for strategy in ("BACKWARD", "FULL", "ALWAYS_INCOMPATIBLE"):
        assert why_incompatible(old, new, strategy) is not None
    for strategy in ("FORWARD", "FULL", "ALWAYS_INCOMPATIBLE"):
        assert why_incompatible(new, old, strategy) is not None
    other = with_part("JSON", SMALL)
    assert "AVRO became JSON" in str(why_incompatible(old, other, "FULL_TRANSITIVE"))
    assert why_incompatible(old, with_part("JSON", LARGE), "FORWARD") is not None
    assert why_incompatible(old, new, "ALWAYS_COMPATIBLE") is None
