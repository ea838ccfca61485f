"""`ottla cluster recover local` as far as it asks: nobody changes what the plan goes by meanwhile."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.commands import cluster_recover
from ottla_broker.log.directories.directory_facts import inspect_broker
from ottla_broker.log.directories.log_directories import take_directories
from ottla_core.errors import ConfigurationError


class Refused(Exception):
    """The question was answered by no."""


async def test_log_directories_are_held_until_the_question_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (await take_directories([tmp_path / "a"], node_id=1, cluster_id="ours")).release()
    monkeypatch.setattr("ottla.recover.etcd_access.local_report", lambda _where: SimpleNamespace(supervisor=None))
    monkeypatch.setattr("ottla_operations.local_clusters.process_identity.is_alive", lambda _process: False)
    monkeypatch.setattr(
        "ottla.recover.local_brokers.local_log_directories", lambda _where, _report: {1: [tmp_path / "a"]}
    )
    monkeypatch.setattr("ottla.recover.local_brokers.name_of_cluster", lambda _where: "test")

    def ask(*_question: object, **_more: object) -> None:
        with pytest.raises(ConfigurationError, match="in use"):
            inspect_broker([tmp_path / "a"])
        raise Refused

    monkeypatch.setattr(cluster_recover, "ask_or_refuse", ask)
    with pytest.raises(Refused):
        cluster_recover.local(directory=tmp_path)
    inspect_broker([tmp_path / "a"])
