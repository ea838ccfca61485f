"""The archive of classes: when it is made, used, given up and removed."""

import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from ottla_spark.cluster.java_class_archive import (
    ARCHIVES_MAX,
    COLLECTOR,
    COMPILER,
    OPTION_VARIABLES,
    QuickStart,
    archive_path,
    quick_start,
)


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """Something that is there in place of a Java."""
    program = tmp_path / "java"
    program.touch()
    return program


def start(java: Path, version: str = "17.0.15", settings: dict[str, str] | None = None, **more: str) -> QuickStart:
    environment = {"XDG_CACHE_HOME": str(java.parent / "cache"), **more}
    return quick_start(java, version, settings or {}, environment)


def test_the_first_session_writes_an_archive_under_another_name_and_the_next_uses_it(java: Path) -> None:
    first = start(java)
    assert first.archive is not None
    assert first.unfinished is not None
    assert first.unfinished != first.archive
    assert f"-XX:ArchiveClassesAtExit={first.unfinished}" in first.options
    first.unfinished.write_bytes(b"classes")
    first.keep(ended_well=True)
    assert not first.unfinished.exists()

    second = start(java)
    assert second.archive is None
    assert f"-XX:SharedArchiveFile={first.archive}" in second.options
    assert {COMPILER, COLLECTOR} <= {*first.options} & {*second.options}
    assert start(java, "21.0.1").archive not in (None, first.archive)


def test_what_a_killed_java_has_written_is_not_taken_over(java: Path) -> None:
    first = start(java)
    assert first.unfinished is not None
    first.unfinished.write_bytes(b"the beginning of")
    first.keep(ended_well=False)
    assert not first.unfinished.exists()
    assert start(java).archive == first.archive, "the next session tries again"


def test_sessions_that_begin_at_once_write_to_files_of_their_own_whatever_their_process_ids(java: Path) -> None:
    one, other = start(java), start(java)
    assert one.archive == other.archive
    assert one.unfinished is not None
    assert other.unfinished is not None
    assert one.unfinished != other.unfinished
    one.unfinished.write_bytes(b"classes")
    other.unfinished.write_bytes(b"the beginning of")
    one.keep(ended_well=True)
    other.keep(ended_well=False)
    assert one.archive is not None
    assert one.archive.read_bytes() == b"classes"
    assert [*one.archive.parent.iterdir()] == [one.archive]


def test_where_java_writes_none_nobody_tries_again(java: Path) -> None:
    start(java).keep(ended_well=True)
    again = start(java)
    assert (again.archive, again.options) == (None, (COMPILER, COLLECTOR))


def test_where_java_could_not_write_it_is_not_asked_to(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr("shutil.disk_usage", lambda _: MagicMock(free=1 << 20))
        assert start(java) == QuickStart((COMPILER, COLLECTOR))
    monkeypatch.setattr("os.access", lambda *_: False)
    assert start(java) == QuickStart((COMPILER, COLLECTOR))


def test_the_newest_archives_are_kept(java: Path) -> None:
    made = []
    for number in range(ARCHIVES_MAX + 2):
        each = start(java, f"17.0.{number}")
        assert each.archive is not None
        assert each.unfinished is not None
        each.unfinished.write_bytes(b"classes")
        os.utime(each.unfinished, (number, number))
        each.keep(ended_well=True)
        made.append(each.archive)
    assert [each.exists() for each in made] == [False] * 2 + [True] * ARCHIVES_MAX


def test_what_the_user_says_of_java_goes_first(java: Path) -> None:
    own = start(java, settings={"spark.driver.extraJavaOptions": "-XX:+UseZGC"})
    assert COLLECTOR not in own.options
    for variable in OPTION_VARIABLES:
        environment = {"XDG_CACHE_HOME": str(java.parent), variable: "-XX:+UseParallelGC"}
        assert COLLECTOR not in quick_start(java, "17", {}, environment).options
    assert start(java, JDK_JAVA_OPTIONS="-XX:SharedArchiveFile=/mine.jsa").options == (COMPILER, COLLECTOR)
    assert archive_path(java, "17", {"SPARK_CONF_DIR": "/etc/spark"}) is None
