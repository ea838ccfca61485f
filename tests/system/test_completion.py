"""Names that the shell completes, from a cluster with a Connect worker."""

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.clusters.ottla_command import Ottla, ottla_and_connect
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

WAIT_S = 60
RUN_DEADLINE_S = 120


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    with ottla_and_connect(tmp_path_factory.mktemp("completion") / "cluster") as made:
        yield made


def test_names_of_topics_groups_and_connectors_are_completed(ottla, tmp_path):
    ottla.run("produce", "flights-1", "--create", stdin=b"x\n")
    ottla.run("topic", "create", "flights-2", "other")
    ottla.run("consume", "flights-1", "--group", "readers")
    connector = tmp_path / "datagen.json"
    settings = {"connector.class": "FileSource", "file.path": "/dev/null", "topic": "other", "tasks.max": "1"}
    connector.write_text(json.dumps({"name": "words-in", "config": settings}))
    ottla.run("connect", "create", str(connector))

    def complete(line: str) -> set[str]:
        wanted = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_OTTLA_COMPLETE": "complete_bash"}
        done = subprocess.run(
            [ottla_command()], capture_output=True, text=True, check=True, timeout=RUN_DEADLINE_S,
            env={**os.environ, **ottla.environment, **wanted},
        )  # fmt: skip
        return set(done.stdout.split())

    # On a machine that is busy a second may pass before there is an answer, and then nothing is offered.
    for line, names in {
        "ottla topic describe fl": {"flights-1", "flights-2"},
        "ottla consume __": {"__consumer_offsets"},
        "ottla consume flights-1 --group re": {"readers"},
        "ottla group describe r": {"readers"},
        "ottla connect status w": {"words-in"},
    }.items():
        offered = eventually(lambda line=line: complete(line), f"names for {line!r}", within_s=WAIT_S)
        assert offered == names
