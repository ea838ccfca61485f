"""Finds the schema of a topic that nobody wrote down.

JSON has no schema, so records are looked at: every field that one of them has becomes a column, of the type that fits
all of them. A number is BIGINT if all of them are whole, else DOUBLE; text is STRING, or TIMESTAMP if all of it is
written as ISO 8601 has it. The columns come in the order of the records' own fields. Later records may differ: who
depends on a schema writes it down. Avro's schemas are asked of the registry.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StructType

from ottla_spark.constant_folding import folded
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.format import JSON, Format
from ottla_spark.formats.registry import FRAME_BYTES, MAGIC, UnknownSchema, registry_at
from ottla_spark.formats.sampling import Sample, latest_records

log = logging.getLogger(__name__)

TIMESTAMP_PATTERN = "yyyy-MM-dd[ ]['T']HH:mm:ss[.SSSSSS][XXX]"
INFERENCE_OPTIONS = {"inferTimestamp": "true", "timestampFormat": TIMESTAMP_PATTERN}
AT_ONCE_MAX = 4 << 20
"""Characters of JSON; more is inferred by a job."""


def inferred(
    spark: SparkSession, read_options: Mapping[str, str], known: Format, *, part: str, sample: Sample | None = None
) -> Format:
    """Return a format with a schema: its own, or what the latest records of the topic or its registry say.

    Args:
        spark: infers JSON's types.
        read_options: which topic, and how it is reached, as for the data source.
        known: the format so far.
        part: `key` or `value`.
        sample: the latest records, if they are there already.

    Raises:
        UnusableFormat: there are no records, or none that fits; the registry has no schema.
        InvalidConfig, MissingTopic, ClusterUnreachable: as of `latest_records`.
        RetriableError: the registry cannot be reached.
    """
    if not known.needs_schema:
        return known
    if known.name != JSON and not known.registry_url:
        raise UnusableFormat(
            f"the {part}'s format avro needs {part}.schema, the schema in Avro's JSON, or value.schema.registry.url, "
            "the address of a Schema Registry"
        )
    if sample is None:
        sample = latest_records(read_options, known.sample_rows)
    if known.name != JSON:
        return replace(known, schema=_registered(known.registry_url, sample, part))
    records = sample.keys if part == "key" else sample.values
    where = f"the {part}s of the topic {', '.join(sample.topics)}"
    return replace(known, schema=json_columns(spark, records, where=where).toDDL())


def json_columns(spark: SparkSession, records: Sequence[bytes], *, where: str) -> StructType:
    """Return the columns of JSON objects.

    Args:
        spark: infers the types.
        records: as they were read; what is no object among them is passed over.
        where: whose they are, for messages.

    Raises:
        UnusableFormat: there are no records, or no objects among them.
    """
    if not records:
        raise UnusableFormat(f"there are no records to infer a schema of {where} from: give one, or fill the topic")
    objects, order, texts = _objects(records)
    if not objects:
        found = f"JSON, but no objects ({texts[0]:.60})" if texts else f"no JSON ({records[-1][:60]!r})"
        raise UnusableFormat(
            f"{where} are {found}, in all of the {len(records)} records looked at: choose the format string, "
            "or avro, or bytes"
        )
    if kept_out := [name for name in order if name.startswith("_")]:
        log.warning("Fields of %s whose names begin with _ are left out: %s", where, ", ".join(kept_out))
    by_name = {each.name: each for each in _types(spark, objects)}
    columns = [by_name[name] for name in order if name in by_name and not name.startswith("_")]
    if not columns:
        raise UnusableFormat(
            f"{where} are JSON objects without fields that could be columns: choose the format string"
        )
    return StructType(columns)


def _types(spark: SparkSession, objects: Sequence[str]) -> StructType:
    """Return the columns that Spark infers, without a job of its if there are not too many."""
    if sum(map(len, objects)) <= AT_ONCE_MAX:
        with suppress(PySparkException, Py4JError, AttributeError):
            at_once = sf.schema_of_json(sf.lit(f"[{','.join(objects)}]"), INFERENCE_OPTIONS)
            declared = StructType.fromDDL(f"records {folded(spark, at_once).toString()}")
            records = declared["records"].dataType if isinstance(declared, StructType) else None
            if isinstance(records, ArrayType) and isinstance(records.elementType, StructType):
                return records.elementType
    lines = spark.createDataFrame([(each,) for each in objects], "value STRING")
    return spark.read.options(**INFERENCE_OPTIONS).json(lines).schema


def _objects(records: Sequence[bytes]) -> tuple[list[str], list[str], list[str]]:
    """Return the texts of the objects, the names of their fields as they come, and the texts of other JSON."""
    objects, others = [], []
    order: dict[str, None] = {}
    for each in records:
        try:
            text = each.decode()
            content = json.loads(text)
        except ValueError:
            continue
        if isinstance(content, dict):
            objects.append(text)
            order.update(dict.fromkeys(content))
        else:
            others.append(text)
    return objects, list(order), others


def _registered(url: str, sample: Sample, part: str) -> str:
    """Return the latest schema of the topic's subject; without such a subject, the latest that a record has."""
    registry = registry_at(url)
    subjects = [f"{topic}-{part}" for topic in sample.topics]
    if len(subjects) == 1:
        try:
            return registry.latest(subjects[0])
        except UnknownSchema:
            log.info("The Schema Registry has no subject %s, so records are looked at", subjects[0])
    records = sample.keys if part == "key" else sample.values
    numbers = {
        int.from_bytes(each[1:FRAME_BYTES], "big")
        for each in records
        if len(each) >= FRAME_BYTES and each[0] == MAGIC
    }
    for number in sorted(numbers, reverse=True):
        try:
            return registry.schema(number)
        except UnknownSchema:
            continue
    raise UnusableFormat(
        f"the Schema Registry has no subject {' or '.join(subjects)}, and no schema of the {len(records)} records "
        "looked at: give the schema"
    )
