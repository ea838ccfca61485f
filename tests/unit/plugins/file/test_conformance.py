"""The file connectors pass the suite that every plugin passes."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ottla_file import FileSink, FileSource
from ottla_sdk.conformance import sink_connector_suite, sink_records, source_connector_suite

_PROMPT = {"file.settle.ms": "0", "file.poll.interval.ms": "10", "file.scan.interval.ms": "10"}


def _lines(directory: Path) -> Mapping[str, str]:
    for name in ("a", "b", "c"):
        (directory / f"{name}.log").write_text("".join(f"{name} {number}\n" for number in range(5)))
    return {**_PROMPT, "file.path": f"{directory}/*.log", "topic": "lines"}


def _csv(directory: Path) -> Mapping[str, str]:
    text = 'number,name,at\n1,one,2026-01-01T00:00:00Z\n2,"two\nlines",\n3,"",2026-01-02T03:04:05Z\n4,"say ""four""",'
    (directory / "rows.csv").write_text(text)
    with gzip.open(directory / "more.csv.gz", "wt") as more:
        more.write(text)
    return {
        **_PROMPT,
        "file.path": str(directory),
        "topic": "rows",
        "file.format": "csv",
        "file.csv.types": "number:int32,at:timestamp",
        "file.key.field": "number",
        "file.follow": "false",
        "file.batch.rows.max": "2",
    }


def _json(directory: Path) -> Mapping[str, str]:
    (directory / "rows.jsonl").write_text("".join(f'{{"number": {number}}}\n\n' for number in range(7)))
    return {**_PROMPT, "file.path": f"{directory}/rows.jsonl", "topic": "rows", "file.format": "json"}


def _whole(directory: Path) -> Mapping[str, str]:
    for number in range(4):
        (directory / f"{number}.bin").write_bytes(bytes(range(number, 200)))
    return {**_PROMPT, "file.path": str(directory), "topic": "files", "file.format": "whole", "file.key": "name"}


@contextmanager
def _directory_gone(settings: Mapping[str, str]) -> Iterator[None]:
    directory = Path(settings["file.path"]).parent
    hidden = directory.with_name("hidden")
    directory.rename(hidden)
    yield
    hidden.rename(directory)


def _files_anew(settings: Mapping[str, str]) -> int:
    """Longer and in other words, or with the same words again: neither is the former file."""
    for path in sorted(Path(settings["file.path"]).parent.glob("*.log")):
        same = path.read_text()
        path.unlink()
        path.write_text(same + "and more\n" if path.stem == "a" else "another line\n" * 7)
    return 6 + 7 + 7


TestLines = source_connector_suite(
    FileSource,
    settings=_lines,
    expect_records=15,
    interruption=_directory_gone,
    recreation=_files_anew,
    bad_settings=[
        ({"file.path": "", "topic": ""}, ["file.path", "topic"]),
        ({"file.encoding": "utf-16", "file.key.field": "x"}, ["file.encoding", "file.key.field"]),
        ({"file.encoding": "hex"}, ["file.encoding"]),
        ({"file.encoding": "no such", "file.done": "move"}, ["file.encoding", "file.done", "file.done.directory"]),
        (
            {"file.format": "csv", "file.csv.delimiter": "::", "file.csv.header": "false", "file.csv.types": "a:int"},
            ["file.csv.delimiter", "file.csv.columns", "file.csv.types"],
        ),
    ],
)
TestCsv = source_connector_suite(FileSource, settings=_csv, expect_records=8)
TestJson = source_connector_suite(FileSource, settings=_json, expect_records=7)
TestWhole = source_connector_suite(FileSource, settings=_whole, expect_records=4)


def _sink(**settings: str) -> Mapping[str, str]:
    return {"file.roll.rows": "4", "file.roll.ms": "1", "file.fsync": "false", **settings}


def _read_back_json(settings: Mapping[str, str]) -> Iterable[object]:
    for path in sorted(Path(settings["file.directory"]).rglob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            yield from map(json.loads, lines)


@contextmanager
def _unwritable(settings: Mapping[str, str]) -> Iterator[None]:
    blocked = Path(settings["file.directory"]) / ".unfinished"
    hidden = blocked.with_name(".hidden")
    blocked.rename(hidden)
    blocked.write_text("a file where there should be a directory")
    yield
    blocked.unlink()
    hidden.rename(blocked)


_VALUES = [{"number": number, "text": "ü" * number} for number in range(12)]

TestJsonSink = sink_connector_suite(
    FileSink,
    settings=lambda directory: _sink(**{"file.directory": str(directory), "file.compression": "gzip"}),
    records=sink_records(_VALUES),
    read_back=_read_back_json,
    is_exact=True,
    bad_record=sink_records([{"number": float("nan")}])[0],
    interruption=_unwritable,
    bad_settings=[
        ({"file.name": "${topic}", "file.format": "csv", "file.content": "record"}, ["file.name", "file.content"]),
        ({"file.name": "../${topic}/${partition}-${start_offset}-${end_offset}"}, ["file.name"]),
        ({"file.name": "${start_offset}/${topic}-${partition}-${end_offset}"}, ["file.name"]),
        ({"file.name": "${topic}-${partition}-${start_offset}-${end_offset}-${week}"}, ["file.name"]),
    ],
)


def _read_back_csv(settings: Mapping[str, str]) -> Iterable[object]:
    for path in sorted(Path(settings["file.directory"]).rglob("*.csv")):
        header, *rows = path.read_text().splitlines()
        assert header == "number;text"
        yield from rows


TestCsvSink = sink_connector_suite(
    FileSink,
    settings=lambda directory: _sink(
        **{"file.directory": str(directory), "file.format": "csv", "file.csv.delimiter": ";"}
    ),
    records=sink_records(_VALUES),
    read_back=_read_back_csv,
    as_read_back=lambda record: f"{record.value['number']};{record.value['text']}",
    is_exact=True,
    bad_record=sink_records(["no struct"])[0],
)
