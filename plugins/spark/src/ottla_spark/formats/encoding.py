"""Columns to records: a frame becomes one that the data source can write.

A row whose value columns are all null becomes a record without a value, a tombstone: it is what a tombstone is read
as, and compacted topics keep their deletions. Keys are never dropped that way but for `_key` itself.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import AtomicType, BinaryType, DataType, StringType, StructType

from ottla_spark.formats.avro_format import as_avro
from ottla_spark.formats.avro_types import avro_type
from ottla_spark.formats.avro_writing import fitted, schema_of
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.format import AVRO, BYTES, JSON, Format
from ottla_spark.formats.json_format import as_json
from ottla_spark.formats.registry import registry_at

KEY_COLUMN = "_key"
_BESIDE = {"_headers": "headers", "_topic": "topic", "_partition": "partition"}


def encoded(
    frame: DataFrame,
    *,
    key: Format,
    value: Format,
    key_columns: Sequence[str],
    value_columns: Sequence[str] = (),
    topic: str = "",
) -> DataFrame:
    """Return the records that a frame's rows become.

    | format | a value of its columns, a key of `key_columns` | a key of `_key` |
    |---|---|---|
    | json | an object; null fields are written, so that readers see which there are | its JSON |
    | avro | a record, or for another schema, of one column, what that is | likewise |
    | string | the text of one column; of several key columns, a JSON object | its text |
    | bytes | the bytes of one column, BINARY or STRING | its bytes |

    With Avro and a registry, schemas are registered under `TOPIC-key` and `TOPIC-value` before this returns.

    Args:
        frame: a batch or a stream.
        key: how keys are written.
        value: how values are written.
        key_columns: what the key is made of; none: `_key`, if the frame has it, else records have no keys.
        value_columns: what the value is made of; none: all columns but those that begin with `_`.
        topic: where the records go; needed for the names of schemas in a registry alone.

    Returns:
        `key`, `value`, and `headers`, `topic`, `partition` if the frame has `_headers`, `_topic`, `_partition`.

    Raises:
        UnusableFormat: columns are missing, too many, or of types that the format lacks.
        RetriableError: a registry cannot be reached.
    """
    values = value_columns or [each for each in frame.columns if not each.startswith("_")]
    if not values:
        raise UnusableFormat("there is no column to write as the value: all names begin with _")
    made = [_value(frame, value, values, topic).alias("value")]
    if key_columns:
        made.append(_key(frame, key, key_columns, topic).alias("key"))
    elif KEY_COLUMN in frame.columns:
        content, content_type = sf.col(KEY_COLUMN), frame.schema[KEY_COLUMN].dataType
        made.append(_written(content, content_type, key, "key", topic).alias("key"))
    else:
        made.append(sf.lit(None).cast("binary").alias("key"))
    beside = [sf.col(own).alias(name) for own, name in _BESIDE.items() if own in frame.columns]
    return frame.select(*reversed(made), *beside)


def _value(frame: DataFrame, asked: Format, names: Sequence[str], topic: str) -> Column:
    chosen = _chosen(frame, names, "value")
    if asked.name == JSON or (asked.name == AVRO and _is_record(asked)):
        content, content_type = _struct(chosen)
        something = sf.coalesce(*(sf.when(sf.col(quoted(each)).isNotNull(), sf.lit(True)) for each in names))
        return _written(sf.when(something, content), content_type, asked, "value", topic)
    return _written(*_only(chosen, asked, "value", "value_columns"), asked, "value", topic)


def _key(frame: DataFrame, asked: Format, names: Sequence[str], topic: str) -> Column:
    chosen = _chosen(frame, names, "key")
    if (
        asked.name == JSON
        or (asked.name == AVRO and _is_record(asked))
        or (asked.name not in (AVRO, BYTES) and len(names) > 1)
    ):
        return _written(*_struct(chosen), asked, "key", topic)
    return _written(*_only(chosen, asked, "key", "key_columns"), asked, "key", topic)


def _written(content: Column, content_type: DataType, asked: Format, part: str, topic: str) -> Column:
    if asked.name == JSON:
        return as_json(content, content_type)
    if asked.name == AVRO:
        return _avro(content, content_type, asked, part, topic)
    if isinstance(content_type, BinaryType):
        return content
    if asked.name == BYTES:
        if not isinstance(content_type, StringType):
            shown = content_type.simpleString().upper()
            raise UnusableFormat(
                f"the {part} is {shown}: the format bytes takes BINARY or STRING; choose string or json"
            )
        return content.cast("binary")
    return content.cast("string") if isinstance(content_type, AtomicType) else as_json(content, content_type)


def _avro(content: Column, content_type: DataType, asked: Format, part: str, topic: str) -> Column:
    schema = asked.schema or schema_of(content_type, part.capitalize())
    number = None
    if asked.registry_url:
        if not topic:
            raise UnusableFormat(f"the {part}'s schema cannot be registered: it is not known which topic it is for")
        number = registry_at(asked.registry_url).register(f"{topic}-{part}", schema)
    return as_avro(fitted(content, content_type, avro_type(schema)), schema, number=number)


def _is_record(asked: Format) -> bool:
    return not asked.schema or isinstance(avro_type(asked.schema).spark, StructType)


def _chosen(frame: DataFrame, names: Sequence[str], part: str) -> StructType:
    if missing := [each for each in names if each not in frame.columns]:
        raise UnusableFormat(
            f"there is no column {', '.join(missing)} for the {part}: there are {', '.join(frame.columns)}"
        )
    if twice := sorted({each for each in names if frame.columns.count(each) > 1}):
        raise UnusableFormat(f"the column {', '.join(twice)} is there twice: give one another name with AS")
    return StructType([frame.schema[each] for each in names])


def _struct(chosen: StructType) -> tuple[Column, DataType]:
    return sf.struct(*(sf.col(quoted(each)) for each in chosen.names)), chosen


def _only(chosen: StructType, asked: Format, part: str, setting: str) -> tuple[Column, DataType]:
    if len(chosen) > 1:
        raise UnusableFormat(
            f"the {part} in the format {asked.name} is one column, and there are {', '.join(chosen.names)}: "
            f"choose one ({setting}), or the format json or avro"
        )
    return sf.col(quoted(chosen.names[0])), chosen[0].dataType


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
