"""Settings of the SQL sink. Names, values and defaults are those of Confluent's JDBC sink where it has them."""

import enum
from collections.abc import Iterable

from ottla_sdk import CommaSeparated, Problem, setting
from ottla_sdk.config import Importance
from ottla_sql.connection import DatabaseConfig

_WRITES, _MAPPING, _TABLES, _RETRIES, _OFFSETS = "Writes", "Data Mapping", "Tables", "Retries", "Exactly once"
TOPIC_PLACEHOLDER = "${topic}"
KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")


class InsertMode(enum.StrEnum):
    """How a record changes a table."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class PrimaryKeyMode(enum.StrEnum):
    """Where the columns of the primary key come from."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"
    RECORD_HEADER = "record_header"


class SqlSinkConfig(DatabaseConfig):
    """Settings of the SQL sink."""

    insert_mode: InsertMode = setting(
        "insert.mode",
        InsertMode.INSERT,
        doc="What a record does: `insert` adds a row; `upsert` adds one or replaces the columns of that with the "
        "same primary key, so that records may come twice; `update` only changes rows that there are.",
        importance=Importance.HIGH,
        group=_WRITES,
    )
    delete_enabled: bool = setting(
        "delete.enabled",
        False,
        doc="Whether a record without a value deletes the row of its key. Needs the `pk.mode` `record_key` or "
        "`record_header`.",
        group=_WRITES,
    )
    batch_size: int = setting(
        "batch.size",
        3_000,
        doc="Most rows that go to the database in one statement; all records that the task gets at a time are one "
        "transaction.",
        group=_WRITES,
        ge=1,
        le=100_000,
    )
    table_name_format: str = setting(
        "table.name.format",
        TOPIC_PLACEHOLDER,
        doc="The table of a record, in which `${topic}` stands for its topic. The last point separates schema and "
        "table, except with SQLite.",
        group=_MAPPING,
        min_length=1,
    )
    pk_mode: PrimaryKeyMode = setting(
        "pk.mode",
        PrimaryKeyMode.NONE,
        doc="Where the primary key comes from: nowhere, the record's topic, partition and offset (`kafka`), its "
        "key, its value, or its headers.",
        importance=Importance.HIGH,
        group=_MAPPING,
    )
    pk_fields: CommaSeparated = setting(
        "pk.fields",
        (),
        doc="The columns of the primary key. With `kafka` three names, by default "
        f"`{','.join(KAFKA_COLUMNS)}`; with `record_key` and `record_value` fields, by default all, or for a key "
        "that is no struct the one column's name; with `record_header` keys of headers.",
        group=_MAPPING,
    )
    fields_whitelist: CommaSeparated = setting(
        "fields.whitelist",
        (),
        doc="The value's fields to write; by default all. Fields of the primary key are written in any case.",
        group=_MAPPING,
    )
    auto_create: bool = setting(
        "auto.create",
        False,
        doc="Create a table that is missing, with the columns of the first record's schema, or of the values that "
        "come at first if it has none.",
        group=_TABLES,
    )
    auto_evolve: bool = setting(
        "auto.evolve",
        False,
        doc="Add columns that are missing, which may be null or have the schema's default. Columns are never "
        "dropped nor changed.",
        group=_TABLES,
    )
    retries_max: int = setting(
        "max.retries",
        10,
        doc="How often to try again in a row when the database cannot be reached or is busy, before the task fails.",
        group=_RETRIES,
        ge=0,
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms",
        3_000,
        doc="How long to wait before trying again, in milliseconds.",
        group=_RETRIES,
        ge=0,
    )
    offsets_table: str = setting(
        "offsets.table",
        "",
        doc="A table, created if missing, in which the sink keeps how far it has come, in the transactions of the "
        "rows themselves: then every record takes effect once, whatever fails. By default the offsets are the "
        "consumer group's, and after a failure some records come again.",
        group=_OFFSETS,
    )

    def check(self) -> Iterable[Problem]:
        """Check what the settings say together."""
        yield from super().check()
        mode, fields = self.pk_mode, self.pk_fields
        if self.insert_mode is not InsertMode.INSERT and mode is PrimaryKeyMode.NONE:
            yield Problem("pk.mode", f"must not be none for the insert.mode {self.insert_mode}")
        if self.delete_enabled and mode not in (PrimaryKeyMode.RECORD_KEY, PrimaryKeyMode.RECORD_HEADER):
            yield Problem("delete.enabled", "needs the pk.mode record_key or record_header")
        if mode is PrimaryKeyMode.KAFKA and fields and len(fields) != len(KAFKA_COLUMNS):
            yield Problem("pk.fields", "must be three names for topic, partition and offset with the pk.mode kafka")
        if mode is PrimaryKeyMode.RECORD_HEADER and not fields:
            yield Problem("pk.fields", "must name headers with the pk.mode record_header")
        if len(set(fields)) != len(fields):
            yield Problem("pk.fields", "has a name twice")
