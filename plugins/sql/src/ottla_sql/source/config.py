"""Settings of the SQL source. Names, values and defaults are those of Confluent's JDBC source where it has them."""

import enum
import re
from collections.abc import Iterable, Iterator

from pydantic import JsonValue, TypeAdapter, ValidationError

from ottla_sdk import CommaSeparated, Problem, Width, setting
from ottla_sdk.config import Importance
from ottla_sql.connection import DatabaseConfig
from ottla_sql.source.table_selection import TableId

_MODE, _TABLES, _CONNECTOR, _VALUES = "Mode", "Tables", "Connector", "Values"


class Mode(enum.StrEnum):
    """How rows that are new or changed are found."""

    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"

    @property
    def uses_timestamp(self) -> bool:
        """Whether a column says when a row was changed."""
        return self in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)

    @property
    def uses_incrementing(self) -> bool:
        """Whether a column grows with each row."""
        return self in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)


class TableType(enum.StrEnum):
    """What counts as a table."""

    TABLE = "TABLE"
    VIEW = "VIEW"
    MATERIALIZED_VIEW = "MATERIALIZED VIEW"


class NumericMapping(enum.StrEnum):
    """What becomes of NUMERIC and DECIMAL columns."""

    NONE = "none"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"
    PRECISION_ONLY = "precision_only"


class TimestampGranularity(enum.StrEnum):
    """What becomes of timestamp columns."""

    CONNECT_LOGICAL = "connect_logical"
    MICROS_LONG = "micros_long"
    MICROS_STRING = "micros_string"
    MICROS_ISO = "micros_iso_datetime_string"
    NANOS_LONG = "nanos_long"
    NANOS_STRING = "nanos_string"
    NANOS_ISO = "nanos_iso_datetime_string"


class KeyMode(enum.StrEnum):
    """What becomes the key of records."""

    NONE = "none"
    PRIMARY_KEY = "primary_key"
    COLUMNS = "columns"


class Recreated(enum.StrEnum):
    """What to do about a table that was dropped and created anew."""

    RESTART = "restart"
    CONTINUE = "continue"
    FAIL = "fail"


class SqlSourceConfig(DatabaseConfig):
    """Settings of the SQL source."""

    mode: Mode = setting(
        "mode",
        doc="How rows are found: `bulk` reads all of a table each time; `incrementing` reads rows whose "
        "`incrementing.column.name` is greater than any before, so new rows only; `timestamp` reads rows whose "
        "`timestamp.column.name` is later than any before, so new and changed ones; `timestamp+incrementing` uses "
        "both columns, and is the one that finds changes and neither repeats nor skips a row after a restart. "
        "Deleted rows are never seen.",
        importance=Importance.HIGH,
        group=_MODE,
    )
    incrementing_column: str = setting(
        "incrementing.column.name",
        "",
        doc="The column that grows with each new row and is never null. If empty, the column that the database "
        "itself counts up, else the primary key if it is one column of integers.",
        group=_MODE,
    )
    timestamp_columns: CommaSeparated = setting(
        "timestamp.column.name",
        (),
        doc="The column that holds when a row was last changed; of several, the first that is not null counts. "
        "Where it stores no time zone, and `db.timezone` has summer time, rows of the hour that comes twice when "
        "that ends are read when it is over for the second time.",
        group=_MODE,
    )
    timestamp_initial_ms: int | None = setting(
        "timestamp.initial",
        None,
        doc="Where to begin when there is no offset yet, in milliseconds since the epoch: only later rows are read. "
        "-1 begins now; by default all rows are read.",
        importance=Importance.LOW,
        group=_MODE,
        ge=-1,
    )
    timestamp_delay_ms: int = setting(
        "timestamp.delay.interval.ms",
        0,
        doc="How old, in milliseconds, a row's timestamp must be before the row is read. Where transactions take "
        "time between setting the timestamp and their commit, set it to the longest: otherwise later rows may be "
        "read first, and the late ones never.",
        group=_MODE,
        ge=0,
    )
    validate_non_null: bool = setting(
        "validate.non.null",
        True,
        doc="Refuse tables whose incrementing column, or all of whose timestamp columns, may be null. Rows where "
        "they are null are never read.",
        importance=Importance.LOW,
        group=_MODE,
    )
    whitelist: CommaSeparated = setting(
        "table.whitelist",
        (),
        doc="The tables to read, as `TABLE` or `SCHEMA.TABLE`; by default all.",
        group=_TABLES,
    )
    blacklist: CommaSeparated = setting(
        "table.blacklist",
        (),
        doc="The tables not to read, as `TABLE` or `SCHEMA.TABLE`.",
        group=_TABLES,
    )
    include: CommaSeparated = setting(
        "table.include.list",
        (),
        doc="Regular expressions, of which one must match the whole of `SCHEMA.TABLE` (or `TABLE`, where the "
        "database has no schemas) for a table to be read.",
        group=_TABLES,
    )
    exclude: CommaSeparated = setting(
        "table.exclude.list",
        (),
        doc="Regular expressions for tables that are not to be read although `table.include.list` matches them.",
        group=_TABLES,
    )
    schema_pattern: str | None = setting(
        "schema.pattern",
        None,
        doc="The schemas whose tables are read: a name in which `%` stands for any characters and `_` for one. By "
        "default all but the database's own; with MySQL and Oracle only that of the connection.",
        group=_TABLES,
    )
    table_types: CommaSeparated = setting(
        "table.types",
        (TableType.TABLE.value,),
        doc="What is read: `TABLE`, `VIEW`, `MATERIALIZED VIEW`, separated by commas.",
        importance=Importance.LOW,
        group=_TABLES,
    )
    table_poll_interval_ms: int = setting(
        "table.poll.interval.ms",
        60_000,
        doc="How often to look for new and for dropped tables, in milliseconds.",
        importance=Importance.LOW,
        group=_TABLES,
        ge=100,
    )
    recreated: Recreated = setting(
        "table.recreated",
        Recreated.RESTART,
        doc="What to do about a table that was dropped and created anew: `restart` reads it from its beginning, "
        "`continue` goes on behind the last row of the former one, as after a restore, `fail` fails the task. "
        "PostgreSQL tells such tables apart for certain. SQLite, MySQL and MariaDB only tell that something has "
        "changed, and the table counts as new if nothing is left of the last row that was read and those behind it; "
        "with other databases, and with views and `query`, nothing is noticed.",
        importance=Importance.LOW,
        group=_TABLES,
    )
    query: str = setting(
        "query",
        "",
        doc="Rows come from this SELECT, in one task, instead of from tables. Modes other than `bulk` read from it "
        "as from a table: its result must have the columns they need.",
        group=_TABLES,
        width=Width.LONG,
    )
    query_suffix: str = setting(
        "query.suffix",
        "",
        doc="Goes to the end of every generated statement.",
        importance=Importance.LOW,
        group=_TABLES,
    )
    topic_prefix: str = setting(
        "topic.prefix",
        doc="Goes before a table's name to make its topic's; with `query`, the topic.",
        importance=Importance.HIGH,
        group=_CONNECTOR,
        pattern=r"^[a-zA-Z0-9._-]*$",
    )
    poll_interval_ms: int = setting(
        "poll.interval.ms",
        5_000,
        doc="How long to wait after all rows of a table are read before looking for more, in milliseconds.",
        importance=Importance.HIGH,
        group=_CONNECTOR,
        ge=0,
    )
    batch_rows_max: int = setting(
        "batch.max.rows",
        1_000,
        doc="Most rows that are read at a time; rows stream from the database, so this bounds memory.",
        importance=Importance.LOW,
        group=_CONNECTOR,
        ge=1,
        le=1_000_000,
    )
    key_mode: KeyMode = setting(
        "key.mode",
        KeyMode.NONE,
        doc="What becomes the records' key: nothing, the columns of the table's primary key, or `key.columns`; "
        "a struct of those columns. Only records with keys keep their order when a topic has several partitions.",
        group=_VALUES,
    )
    key_columns: CommaSeparated = setting(
        "key.columns", (), doc="The columns of the key, for the `key.mode` `columns`.", group=_VALUES
    )
    numeric_mapping: NumericMapping = setting(
        "numeric.mapping",
        NumericMapping.NONE,
        doc="What becomes of NUMERIC columns: with `none` Decimals; with `best_fit` integers of the smallest type "
        "or FLOAT64 where a precision of at most 18 digits allows it; with `best_fit_eager_double` FLOAT64 whenever "
        "there are digits after the point; with `precision_only` integers, and Decimals if there are such digits.",
        importance=Importance.LOW,
        group=_VALUES,
    )
    numeric_scale_default: int = setting(
        "numeric.scale.default",
        38,
        doc="Digits after the point of Decimals whose column, such as PostgreSQL's plain NUMERIC, does not say. "
        "A value with more fails the task rather than losing some.",
        importance=Importance.LOW,
        group=_VALUES,
        ge=0,
        le=1_000,
    )
    timestamp_granularity: TimestampGranularity = setting(
        "timestamp.granularity",
        TimestampGranularity.CONNECT_LOGICAL,
        doc="What becomes of timestamp columns: Connect's Timestamp, which has milliseconds, or microseconds or "
        "nanoseconds since the epoch as numbers or text, or ISO text in UTC.",
        importance=Importance.LOW,
        group=_VALUES,
    )

    def check(self) -> Iterable[Problem]:
        """Check what the settings say together."""
        yield from super().check()
        yield from self._check_mode()
        yield from self._check_tables()
        if (self.key_mode is KeyMode.COLUMNS) != bool(self.key_columns):
            yield Problem("key.columns", "must be set if, and only if, key.mode is columns")
        if self.key_mode is KeyMode.PRIMARY_KEY and self.query:
            yield Problem("key.mode", "a query has no primary key; use the mode columns and key.columns")

    def _check_mode(self) -> Iterator[Problem]:
        if self.mode.uses_timestamp and not self.timestamp_columns:
            yield Problem("timestamp.column.name", f"must be set for the mode {self.mode}")
        if self.mode.uses_incrementing and self.query and not self.incrementing_column:
            yield Problem("incrementing.column.name", "must be set with query: there is no primary key to find it by")

    def _check_tables(self) -> Iterator[Problem]:
        lists = {
            "table.whitelist": self.whitelist,
            "table.blacklist": self.blacklist,
            "table.include.list": self.include,
        }
        used = [key for key, words in lists.items() if words]
        if self.query and used:
            yield Problem("query", f"cannot be set together with {' and '.join(used)}")
        elif len(used) > 1:
            yield Problem(used[0], f"cannot be set together with {' and '.join(used[1:])}")
        if self.exclude and not self.include:
            yield Problem("table.exclude.list", "needs table.include.list")
        if self.query and not self.topic_prefix:
            yield Problem("topic.prefix", "must be set with query: it is the topic's name")
        for key, patterns in (("table.include.list", self.include), ("table.exclude.list", self.exclude)):
            for pattern in patterns:
                try:
                    re.compile(pattern)
                except re.error as error:
                    yield Problem(key, f"{pattern!r} is no regular expression: {error}")
        known = [each.value for each in TableType]
        if unknown := [word for word in self.table_types if word.upper() not in known]:
            yield Problem("table.types", f"{', '.join(unknown)}: there are {', '.join(known)}")


class SqlSourceTaskConfig(SqlSourceConfig):
    """Settings of a task of the SQL source."""

    tables: str = setting("tables", "[]", doc="The task's tables, as the connector divides them: JSON.")

    def check(self) -> Iterable[Problem]:
        """Check also the tables."""
        yield from super().check()
        try:
            self.table_ids()
        except ValidationError:
            yield Problem("tables", "is not what the connector writes")

    def table_ids(self) -> list[TableId]:
        """Return the task's tables."""
        return [TableId(*each) for each in _TABLE_LIST.validate_json(self.tables)]


_TABLE_LIST: TypeAdapter[list[tuple[str | None, str, bool]]] = TypeAdapter(list[tuple[str | None, str, bool]])


def tables_setting(tables: Iterable[TableId]) -> str:
    """Return the setting `tables` of a task."""
    as_json: list[JsonValue] = [list(each) for each in tables]
    return TypeAdapter(list[JsonValue]).dump_json(as_json).decode()
