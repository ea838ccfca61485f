"""Which commit runs: that of the wheel's file, or of the checkout that the code is part of."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla_core import build_info


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit_told_in(folder: Path) -> str:
    """What a copy of the module says there."""
    shutil.copy(build_info.__file__, folder / "build_info.py")
    spec = importlib.util.spec_from_file_location("copied_build_info", folder / "build_info.py")
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    return copied.source_commit()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "first")
    return tmp_path


def test_a_checkout_is_at_its_commit(checkout: Path):
    shutil.copy(build_info.__file__, checkout / "build_info.py")
    git(checkout, "add", "build_info.py")
    git(checkout, "commit", "--quiet", "--message", "second")
    assert commit_told_in(checkout) == git(checkout, "rev-parse", "HEAD")


def test_an_installation_within_somebody_elses_checkout_is_not_at_its_commit(checkout: Path):
    assert commit_told_in(checkout) == ""


def test_a_wheel_has_the_commit_in_a_file_which_goes_before_a_checkout(checkout: Path):
    (checkout / "commit.txt").write_text("0123abc\n")
    assert commit_told_in(checkout) == "0123abc"


def test_without_git_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_told_in(tmp_path) == ""
