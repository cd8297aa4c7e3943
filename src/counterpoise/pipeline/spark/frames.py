"""Converts Arrow schemas for Spark."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

_MOMENT = pa.timestamp("us", "UTC")


def spark_type(schema: pa.Schema) -> StructType:
    """The Spark type of an Arrow schema."""
    return from_arrow_schema(spark_schema(schema))


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with types that Spark accepts: text without dictionaries, microseconds."""
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
