"""Which Java is found, and what is said of one that will not do."""

import stat
from pathlib import Path

import pytest

from ottla_spark.cluster.java import JavaMissing, require_java


def java_that_says(folder: Path, words: str, *, exit_code: int = 0) -> Path:
    """A program `java` that prints as Java does, to standard error."""
    folder.mkdir(parents=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit {exit_code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of one empty folder, which is returned, and no JAVA_HOME."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_is_new_enough_will_do(no_java: Path, version: str):
    java_that_says(no_java, f'openjdk version "{version}" 2025-04-15')

    require_java()


def test_without_java_the_message_says_how_to_install_it():
    with pytest.raises(JavaMissing, match=r"^there is no java on the PATH\. .* install it \(Debian: apt-get install"):
        require_java()


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_452"])
def test_a_java_that_is_too_old_is_named_with_its_version(no_java: Path, version: str):
    java_that_says(no_java, f'openjdk version "{version}"')

    with pytest.raises(JavaMissing, match=rf'{no_java}/java is too old \(openjdk version "{version}"\)\. .* Java 17'):
        require_java()


def test_the_java_of_java_home_wins_over_the_path(no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    java_that_says(no_java, 'openjdk version "1.8.0_452"')
    java_that_says(tmp_path / "jdk" / "bin", 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    require_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))

    with pytest.raises(JavaMissing, match=r"nothing/bin/java does not run: .*No such file"):
        require_java()


def test_a_java_that_does_not_run_is_named(no_java: Path):
    java_that_says(no_java, "Could not create the Java Virtual Machine.", exit_code=1)

    with pytest.raises(JavaMissing, match=rf"{no_java}/java does not run"):
        require_java()
