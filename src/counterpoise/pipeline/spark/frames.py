"""Arrow schemas and tables as Spark takes them."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

_SPARK: Final[Mapping[pa.DataType, str]] = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
}
_MOMENT: Final = pa.timestamp("us", "UTC")


def ddl_of(schema: pa.Schema) -> str:
    """A schema in Spark's words; raises `KeyError` for a type that no table of ours has."""
    return ", ".join(f"`{each.name}` {_type(each.type)}" for each in schema)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The types that Spark takes for these: text without dictionaries, times in microseconds."""
    return pa.schema([pa.field(each.name, _plain(each.type)) for each in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return _MOMENT
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind


def _type(kind: pa.DataType) -> str:
    plain = _plain(kind)
    if pa.types.is_timestamp(plain):
        return "timestamp"
    if pa.types.is_list(plain):
        return f"array<{_type(plain.value_type)}>"
    return _SPARK[plain]
