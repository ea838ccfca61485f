"""What becomes of a pipeline's checkpoint when the pipeline is dropped."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla_spark.sql.connect_rest import NOT_FOUND, ConnectRest, Refused
from ottla_spark.sql.deployment import OWN_CHECKPOINT_KEY, Deployment


class Worker(ConnectRest):
    """A worker that has one connector, and forgets it."""

    def __init__(self, config: dict[str, str]) -> None:
        super().__init__("http://127.0.0.1:1")
        self.config = config

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        if method == "GET" and path.endswith("/config"):
            return self.config
        if method == "GET":
            raise Refused("no status", NOT_FOUND)
        return None


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "p-01234567"
    folder.mkdir()
    (folder / "ottla-query.json").write_text(json.dumps({"version": 1, "connector": "p"}))
    return folder


def drop(own: str, checkpoint: Path, *, keep: bool = False) -> str:
    config = {"connector.class": "ottla_spark.SparkPipeline", "checkpoint.location": str(checkpoint)}
    deployment = Deployment(Worker({**config, OWN_CHECKPOINT_KEY: own} if own else config), {})
    return deployment.drop("p", if_exists=False, keep_checkpoint=keep)


def test_one_that_was_made_for_it_goes_with_it_unless_it_is_to_stay(checkpoint: Path) -> None:
    assert "so does its checkpoint" in drop(str(checkpoint), checkpoint, keep=True)
    assert checkpoint.exists()
    assert "with its checkpoint" in drop(str(checkpoint), checkpoint)
    assert not checkpoint.exists()


@pytest.mark.parametrize("own", ["", "/elsewhere/p-76543210"])
def test_one_that_the_user_has_named_stays_also_if_it_was_made_for_a_former_one(own: str, checkpoint: Path) -> None:
    assert "so does its checkpoint" in drop(own, checkpoint)
    assert checkpoint.exists()
