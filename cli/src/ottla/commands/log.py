"""`ottla log`: look into the files of a log, whether its broker runs or not."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.output import note, write_result
from ottla_operations.errors import OperationError
from ottla_operations.records.field_codec import bytes_field

if TYPE_CHECKING:
    from ottla_broker.log.directories.dump import DumpRow

ROWS_PER_WRITE = 500
LOG_SUFFIXES = frozenset({".log", ".index", ".timeindex", ".txnindex", ".snapshot"})
LOG_NAMES = frozenset(
    {
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    }
)


def dump(
    *,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files of a log, or directories such as flights-0.")
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Also each record, with key and value.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each row as one line of JSON.")] = False,
) -> None:
    """Show what is in segments, indexes, snapshots and checkpoints, with the names of Kafka's DumpLogSegments.

    Indexes are compared with their segment. Exits with 1 if something does not fit.

    [bold]Examples[/bold]

      ottla log dump ~/.local/share/ottla/local/broker-1/flights-0

      ottla log dump flights-0/00000000000000000000.log --records

      ottla log dump flights-0 --json | grep problem
    """
    problems = 0
    for file in list(_files_of(paths)):
        if not as_json:
            write_result(f"Dumping {file}\n".encode(errors="surrogateescape"))
        lines: list[bytes] = []
        for row in _rows_of(file, records=records):
            problems += row.kind == "problem" or row.fields.get("isvalid") is False
            lines.append(_json_line(file, row) if as_json else row.as_line().encode() + b"\n")
            if len(lines) == ROWS_PER_WRITE:
                write_result(b"".join(lines))
                lines.clear()
        write_result(b"".join(lines))
    if problems:
        note(f"ottla: {problems} problem{'s' if problems > 1 else ''} found")
        raise typer.Exit(1)


def _files_of(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files named, and of each directory named those that belong to a log.

    Raises:
        OperationError: a path is not there, or a directory holds no such file.
    """
    for path in paths:
        if not path.exists():
            raise OperationError(f"there is no file {path}")
        if not path.is_dir():
            yield path
            continue
        found = sorted(each for each in path.iterdir() if each.is_file() and is_log_file(each))
        if not found:
            raise OperationError(f"{path} holds no file of a log; name a partition's directory, such as flights-0")
        yield from found


def is_log_file(path: Path) -> bool:
    """Tell by its name whether a file belongs to a log or a log directory."""
    return path.suffix in LOG_SUFFIXES or path.name in LOG_NAMES


def _rows_of(file: Path, *, records: bool) -> "Iterator[DumpRow]":
    from ottla_broker.log.directories.dump import dump_file  # noqa: PLC0415
    from ottla_core.errors import KafkaError  # noqa: PLC0415

    try:
        yield from dump_file(file, records=records)
    except KafkaError as error:
        raise OperationError(error.message) from None
    except OSError as error:
        raise OperationError(f"cannot read {file}: {error.strerror}") from None


def _json_line(file: Path, row: "DumpRow") -> bytes:
    document: dict[str, Any] = {"file": str(file), "kind": row.kind}
    for name, value in row.fields.items():
        document.update(bytes_field(name, value) if isinstance(value, bytes) else {name: value})
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
