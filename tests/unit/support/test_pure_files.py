"""Which files are held to be pure, and what they must not do."""

import ast
import tomllib
from pathlib import Path

import pytest

from tests.support.pure_files import impurities, pure_files, says_pure

ROOT = Path(__file__).parents[3]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
FORBIDDEN = next(each for each in SETTINGS["contracts"] if each["type"] == "pure_files")["forbidden_modules"]


@pytest.mark.parametrize(
    ("docstring", "is_pure"),
    [
        ("Rules. Pure.", True),
        ("Rules.\n\nPure: the time is an argument.", True),
        ("What `x` is. Pure. More.", True),
        ("Pure rules: `a.py`.", False),
        ("Rules. Pure but for the log.", False),
        ("What decides is pure.", False),
    ],
)
def test_a_file_says_in_a_sentence_of_its_head_that_it_is_pure(docstring, is_pure):
    assert says_pure(f'"""{docstring}"""\n\nimport math\n') is is_pure


@pytest.mark.parametrize(
    ("planted", "what"),
    [
        ("import asyncio", "asyncio"),
        ("import os.path", "os.path"),
        ("from time import monotonic", "time"),
        ("import random", "random"),
        ("import secrets", "secrets"),
        ("from concurrent.futures import Future", "concurrent.futures"),
        ("from urllib.request import urlopen", "urllib.request"),
        ("from ottla_core.random_ids import random_uuid", "ottla_core.random_ids"),
        ("def late():\n    import socket", "socket"),
        ("from uuid import UUID, uuid4", "uuid.uuid4"),
        ("import uuid\nuuid.uuid1()", ".uuid1"),
        ("import datetime as dt\ndt.datetime.now(dt.UTC)", ".now"),
        ("from datetime import date\ndate.today()", ".today"),
        ("from pathlib import Path\nPath('x').read_text()", ".read_text"),
        ("open('x')", "open()"),
    ],
)
def test_what_a_pure_file_must_not_do_is_found(planted, what):
    found = [found for _, found in impurities(f'"""Rules. Pure."""\n{planted}\n', FORBIDDEN)]
    assert len(found) == 1
    assert what in found[0]


@pytest.mark.parametrize(
    "allowed",
    [
        "from uuid import UUID",
        "import datetime as dt\ndt.datetime(2020, 1, 1)",
        "from pathlib import Path\nPath('x') / 'y'",
        "import ottla_core.timeless",
        "values = {}.now",
    ],
)
def test_values_are_no_clock_and_no_file(allowed):
    assert not list(impurities(allowed, FORBIDDEN))


def test_rules_that_must_not_be_wrong_are_held_to_be_pure():
    """Names some of each service: a file that lost its mark would not be looked at any more."""
    files = pure_files(SETTINGS["root_packages"])
    assert {
        "ottla_broker.log.producers.producer_state",
        "ottla_broker.log.appends.append_validation",
        "ottla_broker.replica.follower_replica",
        "ottla_broker.replica.leader_replica",
        "ottla_broker.replica.longest_log",
        "ottla_controller.leader_election",
        "ottla_controller.partition_change",
        "ottla_core.cluster.state.state_tracker",
        "ottla_core.kafka_uuid",
        "ottla_group_coordinator.classic.group",
        "ottla_group_coordinator.shard",
        "ottla_connect.group.member",
        "ottla_mirror.offsets.offset_map",
    } <= files.keys()
    assert all(ast.parse(path.read_text()) for path in files.values())
