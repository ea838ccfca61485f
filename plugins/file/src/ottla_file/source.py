"""`FileSource`: reads files and follows them as they grow."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ottla_file.births import UNKNOWN_US
from ottla_file.byte_streams import DamagedFile
from ottla_file.column_types import parse_column_types
from ottla_file.csv_decoder import BadHeader, CsvDecoder, CsvDialect
from ottla_file.discovery import FileId, fixed_root, is_single_file
from ottla_file.file_set import FileSet
from ottla_file.finished_files import dispose
from ottla_file.followed_file import Batch, FollowedFile
from ottla_file.line_decoders import JsonDecoder, LineDecoder
from ottla_file.rows import Decoder, WholeDecoder
from ottla_file.source_config import FileSourceConfig, FileSourceTaskConfig
from ottla_sdk import (
    FatalError,
    Problem,
    RetriableError,
    Schema,
    SourceConnector,
    SourceRecord,
    SourceTask,
    schema,
)
from ottla_sdk.file_policy import permitted_path

_WAIT_MAX_S = 1.0
_SCHEMAS: Mapping[str, Schema | None] = {"lines": schema.STRING, "whole": schema.BYTES}


class FileSourceTask(SourceTask[FileSourceTaskConfig]):
    """Reads the files that are its own."""

    __module__ = "ottla_file"
    config_model: ClassVar[type[FileSourceTaskConfig]] = FileSourceTaskConfig

    def start(self) -> None:
        """Get ready; the files are found at the first `poll`."""
        self._files = FileSet(
            self.config, new_decoder=self._new_decoder, offsets=self.context.offsets, log=self.context.log
        )
        self._next_scan_s = 0.0
        self._waiting_for: str | None = None
        self._failure: str | None = None
        self._committed: dict[FileId, int] = {}

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next rows of some file.

        Raises:
            RetriableError: a directory cannot be read.
            FatalError: a row or file cannot be read, and shall not be skipped.
        """
        if self._failure is not None:
            raise FatalError(self._failure)
        now_s = time.monotonic()
        if now_s >= self._next_scan_s:
            self._scan()
            self._next_scan_s = now_s + self.config.scan_interval_ms / 1000
        try:
            batch = self._files.next_batch(now_ns=time.time_ns())
        except (BadHeader, DamagedFile) as error:
            self._refuse(str(error))
            return []
        if batch is None:
            self._dispose_finished()
            self.context.waits_for(self._waiting_for)
            self.context.wait(min(self.config.poll_interval_ms / 1000, _WAIT_MAX_S))
            return []
        return self._records(*batch)

    def committed(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Remove or move finished files whose records are all in the cluster."""
        if self.config.done != "leave":
            for partition, offset in offsets:
                birth_us = offset.get("birth_us", UNKNOWN_US)
                self._committed[FileId(partition["directory"], partition["inode"], birth_us)] = offset["position"]
            self._dispose_finished()

    def stop(self) -> None:
        """Close the files."""
        if hasattr(self, "_files"):
            self._files.close()

    def _scan(self) -> None:
        try:
            self._files.scan()
            self._waiting_for = self._files.waiting_for()
        except OSError as error:
            raise RetriableError(f"cannot look for files: {error}") from error
        self.context.metrics.set("files", len(self._files))

    def _records(self, file: FollowedFile, batch: Batch) -> list[SourceRecord]:
        config = self.config
        path = file.found.path
        values = batch.values
        if batch.bad:
            values = self._handle_bad(path, batch)
        topic, name, key_field = config.topic, path.name, config.key_field
        partition = {"directory": file.found.id.directory, "inode": file.found.id.inode}
        value_schema = batch.schema or _SCHEMAS.get(config.format)
        birth_us = file.found.id.birth_us
        key = {"none": None, "name": name, "path": str(path)}[config.key]
        key_schema = None if key is None else schema.STRING
        if key_field and batch.schema is not None:
            key_schema = batch.schema.field_by_name[key_field].schema
        self.context.metrics.add("rows", len(values))
        return [
            SourceRecord(
                topic=topic,
                key=_field(value, key_field) if key_field else key,
                key_schema=key_schema,
                value=value,
                value_schema=value_schema,
                source_partition=partition,
                source_offset={
                    "file": name,
                    "position": position,
                    "line": line,
                    "check": check,
                    "birth_us": birth_us,
                },
            )
            for value, position, line, check in zip(
                values, batch.positions, batch.lines, batch.checks, strict=False
            )  # values may be cut short by a bad row
        ]

    def _handle_bad(self, path: Path, batch: Batch) -> list[Any]:
        """Return the values to hand on before, or in spite of, rows that cannot be read."""
        first = batch.bad[0]
        if self.config.errors == "fail":
            self._failure = f"{path}: line {first.line} {first.message} (file.errors=skip goes on behind such rows)"
            if not first.before:
                raise FatalError(self._failure)
            return batch.values[: first.before]
        self.context.metrics.add("rows_skipped", len(batch.bad))
        self.context.log.warning(
            "%s: skipped %d rows; the first, line %d, %s", path, len(batch.bad), first.line, first.message
        )
        return batch.values

    def _refuse(self, problem: str) -> None:
        if self.config.errors == "fail":
            self._failure = problem
            raise FatalError(problem)
        self.context.metrics.add("files_skipped")
        self.context.log.warning("skipped the file %s", problem)

    def _dispose_finished(self) -> None:
        if self.config.done == "leave":
            return
        for file in self._files.finished:
            identity = file.found.id
            if self._committed.get(identity, 0) >= file.emitted and dispose(
                file, self.config.done_directory if self.config.done == "move" else None, self.context.log
            ):
                self._files.forget(file)
                self._committed.pop(identity, None)

    def _new_decoder(self) -> Decoder:
        config = self.config
        if config.format == "lines":
            return LineDecoder(config.encoding, config.encoding_errors)
        if config.format == "json":
            return JsonDecoder(config.encoding, config.encoding_errors)
        if config.format == "whole":
            return WholeDecoder()
        return CsvDecoder(
            CsvDialect(
                delimiter=config.delimiter,
                quote=None if config.csv_quote == "none" else config.csv_quote,
                columns=None if config.csv_header else config.csv_columns,
                types=parse_column_types(config.csv_types),
                nulls=frozenset(config.csv_null),
                schema_name=config.schema_name or None,
                encoding=config.encoding,
                errors=config.encoding_errors,
                row_bytes_max=config.row_bytes_max,
            )
        )


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


class FileSource(SourceConnector[FileSourceConfig]):
    """Reads files and follows them as they grow: lines, CSV, JSON lines, or each file as a whole.

    Files are found by patterns, also those that appear later. Rotation is noticed, by renaming as well as by copying
    and emptying, and the rotated file is read to its end first. Files compressed with gzip, bzip2, xz or zstd
    are read as well. With several tasks, each reads a part of the files.
    """

    __module__ = "ottla_file"
    config_model: ClassVar[type[FileSourceConfig]] = FileSourceConfig
    task_class: ClassVar[type[FileSourceTask]] = FileSourceTask
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSource",
    )

    def check(self) -> Iterable[Problem]:
        """Return which directories are missing; one that connectors may not touch is refused before that is told."""
        for pattern in self.config.paths:
            permitted_path(fixed_root(pattern))
            if not (root := fixed_root(pattern)).is_dir():
                yield Problem("file.path", f"there is no directory {root} for {pattern}")
        done = self.config.done_directory
        if self.config.done == "move" and done is not None and not permitted_path(done).is_dir():
            yield Problem("file.done.directory", f"there is no directory {done}")

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one task for a single file, else as many as there may be; each finds its files by itself."""
        count = 1 if is_single_file(self.config.paths) else tasks_max
        return [
            {**self.settings, "file.task.index": str(number), "file.task.count": str(count)}
            for number in range(count)
        ]

    def exactly_once_support(self) -> bool:
        """Return True: every record has its place in its file as offset."""
        return True

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Return which offsets are not of the form that the tasks write."""
        for partition, offset in offsets:
            if set(partition) != {"directory", "inode"} or not isinstance(partition["inode"], int):
                yield Problem("", f"partition {dict(partition)}: must have directory, a path, and inode, a number")
            if offset is not None and not _is_count(offset.get("position")):
                yield Problem("", f"offset {dict(offset)}: must have position, the number of bytes to leave out")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
