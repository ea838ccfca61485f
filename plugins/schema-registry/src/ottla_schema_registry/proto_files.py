"""Descriptors of the files of a registry's Protobuf schema: its own and all that it imports.

A registry gives a schema as the text of a .proto file, or as the base64 of its serialized descriptor. Texts are
compiled by Protobuf's own compiler.
"""

import base64
import binascii
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from ottla_schema_registry.protobuf.builtin_files import RUNTIME_FILES, TEXTS
from ottla_sdk.protobuf_compiler import compile_protobuf

SCHEMA_FILE = "default.proto"
"""The name of a schema's own file, which nobody imports by it."""

_File = descriptor_pb2.FileDescriptorProto


class ProtoFiles(NamedTuple):
    """A schema's own file, and by name what it may import, directly or through others."""

    own: _File
    imports: Mapping[str, _File]


def read_files(schema: str, references: Mapping[str, str]) -> ProtoFiles:
    """Return the files of a schema of the registry.

    Args:
        schema: the schema itself.
        references: the schemas that it uses, by the names that it imports them by.

    Raises:
        DataError, RetriableError: as of `compile_protobuf`.
    """
    given = {**references, SCHEMA_FILE: schema}
    files = {name: file for name, text in given.items() if (file := _described(text, name)) is not None}
    texts = {name: text for name, text in given.items() if name not in files}
    if texts:
        names = [SCHEMA_FILE] if SCHEMA_FILE in texts else list(texts)
        compiled = compile_protobuf(names, {**TEXTS, **texts}, files.values())
        files = {file.name: file for file in compiled.file} | files
    return with_builtin_imports(files.pop(SCHEMA_FILE), files)


def with_builtin_imports(own: _File, others: Mapping[str, _File]) -> ProtoFiles:
    """Return a file with others and with those that may be imported without a registry having them."""
    imported = {name for file in (own, *others.values()) for name in file.dependency} - others.keys()
    texts = {} if imported.isdisjoint(TEXTS) else _compiled_texts()
    return ProtoFiles(own, {**RUNTIME_FILES, **texts, **others})


@cache
def _compiled_texts() -> Mapping[str, _File]:
    return {file.name: file for file in compile_protobuf(list(TEXTS), TEXTS).file}


def _described(schema: str, name: str) -> _File | None:
    """Return the file that a schema is the base64 of; None if it is a text."""
    try:
        found = _File.FromString(base64.b64decode(schema, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    found.name = name
    return found
