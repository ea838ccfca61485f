"""Protobuf's compiler: what it makes of texts, and what is refused before it runs or by it."""

import sys

import pytest

from ottla_sdk import DataError, RetriableError, protobuf_compiler
from ottla_sdk.protobuf_compiler import compile_protobuf

THING = 'syntax = "proto3"; package other; import "google/protobuf/timestamp.proto"; message Thing { int32 id = 1; }'
USER = 'syntax = "proto3"; import "other.proto"; message M { other.Thing thing = 1; }'


def test_files_come_with_all_that_they_import_each_behind_what_it_imports():
    compiled = compile_protobuf(["user.proto"], {"user.proto": USER, "other.proto": THING})
    assert [file.name for file in compiled.file] == ["google/protobuf/timestamp.proto", "other.proto", "user.proto"]
    assert compiled.file[-1].message_type[0].field[0].type_name == ".other.Thing"


def test_a_file_may_import_what_is_known_by_its_descriptor_only():
    thing = compile_protobuf(["other.proto"], {"other.proto": THING}).file
    compiled = compile_protobuf(["user.proto"], {"user.proto": USER}, thing)
    assert [file.name for file in compiled.file][-2:] == ["other.proto", "user.proto"]


@pytest.mark.parametrize("name", ["@arguments", "-I", "a b/c.proto", "ü.proto"])
def test_a_files_name_is_nothing_but_a_name(name):
    assert compile_protobuf([name], {name: "message M {}"}).file[-1].name == name


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x", "a\0b", "a\nb", "x" * 300])
def test_a_name_that_is_no_path_below_the_schemas_folder_is_refused(name):
    with pytest.raises(DataError, match="no path below its folder"):
        compile_protobuf([name], {name: "message M {}"})


def test_a_file_where_another_one_is_a_folder_is_refused():
    with pytest.raises(DataError, match="'a' where another one is a folder"):
        compile_protobuf(["a"], {"a/b": "", "a": ""})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message M {", r"a\.proto:1:12: Reached end of input"),
        ("message M { optional Missing m = 1; }", r'a\.proto:1:22: "Missing" is not defined'),
        ('import "gone.proto";', r"gone\.proto: File not found"),
        ("message M {" * 10_000, "maximum recursion limit"),
        ("\udc00", "is no text"),
    ],
)
def test_the_compilers_complaint_is_told_without_its_folder_and_its_warnings(text, problem):
    with pytest.raises(DataError, match=problem) as caught:
        compile_protobuf(["a.proto"], {"a.proto": text})
    assert "/tmp" not in str(caught.value)
    assert "WARNING" not in str(caught.value)
    assert len(str(caught.value)) < 1200


def test_more_than_a_schema_may_have_is_refused_before_it_is_compiled(monkeypatch):
    with pytest.raises(DataError, match="more than 1000 files"):
        compile_protobuf(["0"], {str(number): "" for number in range(1001)})
    monkeypatch.setattr(protobuf_compiler, "TEXT_BYTES_MAX", 10)
    with pytest.raises(DataError, match="more than 10 bytes"):
        compile_protobuf(["a"], {"a": "message M {}"})


def test_a_compiler_that_takes_too_long_says_nothing_about_the_schema(monkeypatch):
    monkeypatch.setattr(protobuf_compiler, "COMPILED_WITHIN_S", 0.0)
    with pytest.raises(RetriableError, match="within 0 s"):
        compile_protobuf(["a"], {"a": "message M {}"})


def test_a_compiler_that_is_killed_says_nothing_about_the_schema(monkeypatch, tmp_path):
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(killed))
    with pytest.raises(RetriableError, match="ended by signal 9"):
        compile_protobuf(["a"], {"a": "message M {}"})
