"""The settings of `FileSource` and of its tasks."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from ottla_file.column_types import InvalidType, parse_column_types
from ottla_sdk import CommaSeparated, Importance, PluginConfig, Problem, Width, setting

_FORMAT = "Format"
_CSV = "CSV"
_WATCHING = "Watching"
_FINISHED = "Finished files"


_NAMES_IN_KAFKA = {"file": "file.path", "batch.size": "file.batch.rows.max"}
"""Settings of Kafka's own FileStreamSourceConnector, for those who bring its configurations along."""


class FileSourceConfig(PluginConfig):
    """What to read, how, and what to do with it."""

    paths: CommaSeparated = setting(
        "file.path",
        doc="What to read: files, directories (all files directly in them) and patterns such as /var/log/**/*.log, "
        "with commas between them. Paths are absolute, or relative to the worker's directory.",
        importance=Importance.HIGH,
        width=Width.LONG,
        min_length=1,
    )
    topic: str = setting("topic", doc="The topic for the records.", importance=Importance.HIGH, min_length=1)
    exclude: CommaSeparated = setting(
        "file.exclude",
        (".*", "*~", "*.tmp", "*.part", "*.swp"),
        doc="Patterns of file names to leave alone, with commas between them.",
    )
    format: Literal["lines", "csv", "json", "whole"] = setting(
        "file.format",
        "lines",
        doc="lines: each line is a record, a string. csv: each row is a struct. json: each line is a JSON value. "
        "whole: each file is a record, its bytes.",
        importance=Importance.HIGH,
        group=_FORMAT,
    )
    encoding: str = setting(
        "file.encoding",
        "utf-8",
        doc="How text is encoded. It must agree with ASCII on the end of a line, which UTF-16 does not.",
        group=_FORMAT,
    )
    encoding_errors: Literal["strict", "replace", "ignore"] = setting(
        "file.encoding.errors",
        "strict",
        doc="What to do with bytes that are not of the encoding. strict: the row cannot be read, see file.errors. "
        "replace: put U+FFFD in their place. ignore: leave them out.",
        group=_FORMAT,
    )
    row_bytes_max: int = setting(
        "file.row.bytes.max",
        1_048_576,
        doc="Most bytes in a line, a CSV row, or a whole file; see file.errors for longer ones.",
        group=_FORMAT,
        ge=64,
        le=1_073_741_824,
    )
    errors: Literal["fail", "skip"] = setting(
        "file.errors",
        "fail",
        doc="What to do with what cannot be read: rows that are too long, no JSON, or not of their columns; damaged "
        "compressed files. fail: the task fails and says which. skip: log it, count it, and go on behind it.",
        group=_FORMAT,
    )
    key: Literal["none", "name", "path"] = setting(
        "file.key", "none", doc="The key of the records: none, or the file's name or its path.", group=_FORMAT
    )
    key_field: str = setting(
        "file.key.field",
        "",
        doc="The column of CSV rows or the member of JSON objects that is the record's key, instead of file.key.",
        group=_FORMAT,
    )
    csv_delimiter: str = setting(
        "file.csv.delimiter", ",", doc="The character between columns; tab may be written as a word.", group=_CSV
    )
    csv_quote: str = setting(
        "file.csv.quote",
        '"',
        doc="The character around values that hold a delimiter or the end of a line; inside, it is doubled. "
        "none: there is no such character.",
        group=_CSV,
    )
    csv_header: bool = setting(
        "file.csv.header", True, doc="Whether the first row of each file names the columns.", group=_CSV
    )
    csv_columns: CommaSeparated = setting(
        "file.csv.columns", (), doc="The names of the columns when file.csv.header is false.", group=_CSV
    )
    csv_types: CommaSeparated = setting(
        "file.csv.types",
        (),
        doc="The types of columns that are not strings, such as year:int32,price:decimal(2),at:timestamp. Types are "
        "int8, int16, int32, int64, float32, float64, boolean, string, decimal(DIGITS BEHIND THE POINT), date, time "
        "and timestamp (both in ISO 8601; a timestamp without a zone is UTC).",
        group=_CSV,
        width=Width.LONG,
    )
    csv_null: CommaSeparated = setting(
        "file.csv.null",
        (),
        doc="Values that stand for null, such as NA, in all columns. An empty value is null too, except in a "
        "column of strings.",
        group=_CSV,
    )
    schema_name: str = setting(
        "file.csv.schema.name", "", doc="The name of the rows' schema; without one it has none.", group=_CSV
    )
    follow: bool = setting(
        "file.follow",
        True,
        doc="true: files grow, like logs; go on reading at their end, through rotations. false: a file is finished "
        "once it has not changed for file.settle.ms. Compressed files and format whole are never followed.",
        importance=Importance.HIGH,
        group=_WATCHING,
    )
    poll_interval_ms: int = setting(
        "file.poll.interval.ms",
        500,
        doc="How often to look for new rows, in ms.",
        group=_WATCHING,
        ge=10,
        le=3_600_000,
    )
    scan_interval_ms: int = setting(
        "file.scan.interval.ms",
        2_000,
        doc="How often to look for new, rotated and removed files, in ms.",
        group=_WATCHING,
        ge=10,
        le=86_400_000,
    )
    settle_ms: int = setting(
        "file.settle.ms",
        1_000,
        doc="How long a file must not have changed before it counts as finished, in ms.",
        group=_WATCHING,
        ge=0,
        le=86_400_000,
    )
    batch_rows_max: int = setting(
        "file.batch.rows.max", 2_000, doc="Most rows to hand on at once.", group=_WATCHING, ge=1, le=1_000_000
    )
    done: Literal["leave", "delete", "move"] = setting(
        "file.done",
        "leave",
        doc="What to do with a finished file once the cluster has all its records. move: into file.done.directory.",
        group=_FINISHED,
    )
    done_directory: Path | None = setting(
        "file.done.directory",
        None,
        doc="The directory for finished files; on the same file system as they are.",
        group=_FINISHED,
    )

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the configuration that users' settings say; they may have the names of Kafka's own connector."""
        renamed = {name: settings[old] for old, name in _NAMES_IN_KAFKA.items() if old in settings}
        return super().parse({**renamed, **settings})

    @property
    def delimiter(self) -> str:
        """The character between CSV columns."""
        return "\t" if self.csv_delimiter in ("tab", r"\t") else self.csv_delimiter

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together."""
        yield from self._encoding_problems()
        if self.key_field and self.format not in ("csv", "json"):
            yield Problem("file.key.field", f"there are no fields in format {self.format}; use csv or json")
        if self.key_field and self.key != "none":
            yield Problem("file.key", "must be none when file.key.field is set")
        if self.format == "csv":
            yield from self._csv_problems()
        if self.done != "leave" and self.follow and self.format != "whole":
            yield Problem("file.done", "only finished files can be removed; set file.follow to false")
        if self.done == "move" and self.done_directory is None:
            yield Problem("file.done.directory", "must be set when file.done is move")

    def _encoding_problems(self) -> Iterable[Problem]:
        try:
            if b"a\r\n".decode(self.encoding) != "a\r\n":
                yield Problem("file.encoding", f"{self.encoding} does not end lines as ASCII does; convert the files")
        except (LookupError, UnicodeError):
            yield Problem("file.encoding", f"there is no encoding of text called {self.encoding}")

    def _csv_problems(self) -> Iterable[Problem]:
        if len(self.delimiter) != 1 or self.delimiter in "\r\n" or not self.delimiter.isascii():
            yield Problem("file.csv.delimiter", "must be one ASCII character or the word tab")
        if self.csv_quote != "none" and (len(self.csv_quote) != 1 or not self.csv_quote.isascii()):
            yield Problem("file.csv.quote", "must be one ASCII character or the word none")
        elif self.csv_quote == self.delimiter:
            yield Problem("file.csv.quote", "must not be file.csv.delimiter")
        if not self.csv_header and not self.csv_columns:
            yield Problem("file.csv.columns", "must be set when file.csv.header is false")
        if len(set(self.csv_columns)) != len(self.csv_columns):
            yield Problem("file.csv.columns", "a name stands twice")
        try:
            types = parse_column_types(self.csv_types)
        except InvalidType as error:
            yield Problem("file.csv.types", str(error))
            return
        if self.csv_columns and (unknown := sorted(set(types) - set(self.csv_columns))):
            yield Problem("file.csv.types", f"file.csv.columns does not have {', '.join(unknown)}")
        if self.csv_columns and self.key_field and self.key_field not in self.csv_columns:
            yield Problem("file.key.field", f"file.csv.columns does not have {self.key_field}")


class FileSourceTaskConfig(FileSourceConfig):
    """A task's settings: the connector's, and which part of the files is its own."""

    task_index: int = setting("file.task.index", 0, doc="The task's number, from 0; set by the connector.", ge=0)
    task_count: int = setting("file.task.count", 1, doc="How many tasks share the files; set by the connector.", ge=1)
