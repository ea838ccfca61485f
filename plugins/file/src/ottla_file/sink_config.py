"""The settings of `FileSink`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ottla_file.file_names import FileNames, InvalidTemplate
from ottla_sdk import Importance, PluginConfig, Problem, Width, setting

_FORMAT = "Format"
_ROLLING = "Rolling"
_EXTENSIONS = {"lines": ".txt", "json": ".jsonl", "csv": ".csv", "bytes": ".bin"}
_COMPRESSED_EXTENSIONS = {"none": "", "gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}


class FileSinkConfig(PluginConfig):
    """Where to write, how, and when a file is finished."""

    directory: Path = setting(
        "file.directory",
        doc="The directory below which the files are. No two connectors may share one.",
        importance=Importance.HIGH,
        width=Width.LONG,
    )
    template: str = setting(
        "file.name",
        "${topic}/${topic}-${partition}-${start_offset}-${end_offset}",
        doc="The files' paths below file.directory, without their extension: text with ${topic}, ${partition}, "
        "${start_offset} and ${end_offset}, which must all be there, and ${year}, ${month}, ${day} and ${hour} of "
        "the first record's timestamp in UTC. ${topic} is the topic the records were read from. With ${topic_id}, a "
        "topic that is deleted and created anew gets files of its own; without it, the task fails then.",
        width=Width.LONG,
    )
    format: Literal["lines", "json", "csv", "bytes"] = setting(
        "file.format",
        "json",
        doc="json: a JSON value in each line. lines: strings and bytes as they are, a line each, anything else as "
        "JSON. csv: structs as rows, below a header. bytes: strings and bytes one after the other, nothing between.",
        importance=Importance.HIGH,
        group=_FORMAT,
    )
    content: Literal["value", "record"] = setting(
        "file.content",
        "value",
        doc="value: the records' values. record: JSON objects with topic, partition, offset, timestamp_ms, key, "
        "headers and value; for format json only.",
        group=_FORMAT,
    )
    compression: Literal["none", "gzip", "bzip2", "xz", "zstd"] = setting(
        "file.compression", "none", doc="How the files are compressed.", group=_FORMAT
    )
    csv_delimiter: str = setting(
        "file.csv.delimiter",
        ",",
        doc="The character between the columns of CSV; tab may be written as a word.",
        group=_FORMAT,
    )
    csv_null: str = setting("file.csv.null", "", doc="What stands for null in CSV.", group=_FORMAT)
    null_values: Literal["report", "skip", "write"] = setting(
        "file.null.values",
        "report",
        doc="What to do with records without a value. report: they are bad records, see errors.tolerance. skip: "
        "leave them out. write: an empty line, or null in JSON.",
        group=_FORMAT,
    )
    roll_rows: int = setting(
        "file.roll.rows", 1_000_000, doc="Most records in a file.", group=_ROLLING, ge=1, le=1_000_000_000
    )
    roll_bytes: int = setting(
        "file.roll.bytes",
        134_217_728,
        doc="How many bytes a file has when it is finished, about, before compression.",
        group=_ROLLING,
        ge=1,
        le=1 << 40,
    )
    roll_ms: int = setting(
        "file.roll.ms",
        60_000,
        doc="How old a file is when it is finished, in ms. Offsets are committed, and others see the records, when "
        "their file is finished.",
        importance=Importance.HIGH,
        group=_ROLLING,
        ge=1,
        le=86_400_000 * 7,
    )
    fsync: bool = setting(
        "file.fsync",
        True,
        doc="Whether to wait until a finished file is on the disk before its offsets are committed.",
        group=_ROLLING,
    )

    @property
    def delimiter(self) -> str:
        """The character between CSV columns."""
        return "\t" if self.csv_delimiter in ("tab", r"\t") else self.csv_delimiter

    @property
    def names(self) -> FileNames:
        """How the files are named."""
        return FileNames(self.template, _EXTENSIONS[self.format] + _COMPRESSED_EXTENSIONS[self.compression])

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together."""
        try:
            FileNames(self.template, "")
        except InvalidTemplate as error:
            yield Problem("file.name", str(error))
        if len(self.delimiter) != 1 or self.delimiter in '\r\n"':
            yield Problem("file.csv.delimiter", "must be one character or the word tab")
        if self.content == "record" and self.format != "json":
            yield Problem("file.content", f"record is for format json, not {self.format}")
        if self.null_values == "write" and self.format == "csv":
            yield Problem("file.null.values", "CSV has no rows without values; use report or skip")
