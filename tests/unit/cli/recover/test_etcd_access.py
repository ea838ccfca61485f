"""How backups and recoveries reach etcd."""

from pathlib import Path

import pytest

from ottla.recover.etcd_access import etcd_settings
from ottla_operations.errors import OperationError


def test_settings_of_etcd_are_those_of_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, secret = tmp_path / "broker.properties", tmp_path / "secret"
    config.write_text("etcd.endpoints=http://a:1\netcd.username=me\nlog.dirs=/x\ncluster.name=prod\n")
    secret.write_text("hidden\n")
    monkeypatch.setenv("OTTLA_ETCD_PASSWORD_FILE", str(secret))
    found = etcd_settings(None, config, None)
    assert (found.etcd_endpoints, found.cluster_name) == (("http://a:1",), "prod")
    assert (found.etcd_username, found.etcd_password) == ("me", "hidden")
    typed = etcd_settings("http://b:2,http://c:3", config, "other")
    assert (typed.etcd_endpoints, typed.cluster_name) == (("http://b:2", "http://c:3"), "other")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="nowhere"):
        etcd_settings(None, tmp_path / "nowhere", None)
