"""Arrow schemas as Spark reads them."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

_SPARK: Final[Mapping[pa.DataType, str]] = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}


def ddl_of(schema: pa.Schema) -> str:
    """A schema in Spark's words; timestamps are moments, whatever their unit and zone.

    Raises `KeyError` for a type that no table of ours has.
    """
    return ", ".join(f"`{each.name}` {_type(each.type)}" for each in schema)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    return _SPARK[kind]
