"""Texts of .proto files to descriptors, by Protobuf's own compiler.

The compiler is the one of grpcio-tools (the extra `ottla-sdk[protobuf]`). It runs in a process of its own, since a
schema may come from anywhere: size and time are bounded, and what ends the compiler does not end its caller.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ottla_sdk.errors import DataError, RetriableError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

FILES_MAX = 1000
TEXT_BYTES_MAX = 16 * 1024 * 1024
"""Of all files together."""
COMPILED_WITHIN_S = 30.0
COMPLAINTS_LENGTH_MAX = 1000
NAME_LENGTH_MAX = 200
"""Characters in each part of a file's name."""
_LOGGED = re.compile(r"WARNING: All log messages before|[A-Z]\d{4} ")


def compile_protobuf(
    names: Sequence[str], texts: Mapping[str, str], descriptors: Iterable["FileDescriptorProto"] = ()
) -> "FileDescriptorSet":
    """Return the descriptors of files and of all that they import, each behind those that it imports.

    Args:
        names: of the files among the texts; what is neither theirs nor imported by them is not looked at.
        texts: by the names that they are imported by; those of `google/protobuf` need not be among them.
        descriptors: files that may be imported, too.

    Raises:
        DataError: the compiler refuses a file, a name is no relative path, or there is too much.
        RetriableError: the compiler was killed or had too little time, or the disk has no room for its files.
        ImportError: grpcio-tools or protobuf is not installed.
    """
    import grpc_tools  # noqa: PLC0415 - an extra, and needed for texts only
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415

    _check(texts)
    package = Path(grpc_tools.__file__).parent
    try:
        with tempfile.TemporaryDirectory(prefix="ottla-protobuf-") as made:
            folder = Path(made)
            sources = folder / "sources"
            _write(sources, texts)
            (folder / "imports").write_bytes(FileDescriptorSet(file=descriptors).SerializeToString())
            _run(
                package,
                sources,
                [f"--descriptor_set_in={folder / 'imports'}", f"--descriptor_set_out={folder / 'compiled'}"],
                [str(sources / name) for name in names],  # whole paths: `@name` would be a file of arguments
            )
            return FileDescriptorSet.FromString((folder / "compiled").read_bytes())
    except OSError as error:
        raise RetriableError(f"a Protobuf schema cannot be compiled: {error}") from None


def _check(texts: Mapping[str, str]) -> None:
    if len(texts) > FILES_MAX:
        raise DataError(f"a Protobuf schema with more than {FILES_MAX} files")
    if sum(map(len, texts.values())) > TEXT_BYTES_MAX:
        raise DataError(f"a Protobuf schema with more than {TEXT_BYTES_MAX} bytes")
    for name in texts:
        parts = PurePosixPath(name).parts
        is_path = bool(parts) and not name.startswith("/") and ".." not in parts and name.isprintable()
        if not is_path or max(map(len, parts)) > NAME_LENGTH_MAX:
            raise DataError(f"the Protobuf schema has a file {name!r:.200}, which is no path below its folder")


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise DataError(f"the Protobuf schema has a file {name!r:.200} where another one is a folder") from None
        except UnicodeEncodeError:
            raise DataError(f"the Protobuf schema's file {name!r:.200} is no text") from None


def _run(package: Path, sources: Path, sets: Sequence[str], files: Sequence[str]) -> None:
    # The compiler may be in a folder of plugins, which a new interpreter does not know.
    paths = [str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{sources}", f"-I{package / '_proto'}"),
                *("--include_imports", *sets, *files),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=COMPILED_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        raise RetriableError(f"the Protobuf schema was not compiled within {COMPILED_WITHIN_S:g} s") from None
    if done.returncode < 0:
        raise RetriableError(f"the compiler of Protobuf schemas was ended by signal {-done.returncode}")
    if done.returncode:
        raise DataError(f"the Protobuf schema is refused by protoc: {_complaints(done.stderr, sources)}")


def _complaints(said: bytes, sources: Path) -> str:
    """Return what the compiler complains of, with files by their names and without its warnings."""
    lines = said.decode(errors="replace").replace(f"{sources}/", "").splitlines()
    return "; ".join(each for each in lines if not _LOGGED.match(each))[:COMPLAINTS_LENGTH_MAX]
