"""Fixtures that the suites against a running broker share; unit tests use none of them.

With `OTTLA_TESTS_CHECKED=1` the tests that `make check` runs are left out: CI has run them when it runs the others.
With `OTTLA_TURN=N` the tests of tests/in_turn.txt are left out but for those whose turn is N.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import ottla_core  # noqa: F401 - before anything imports gRPC, which it tells to be quiet

pytest.register_assert_rewrite(
    "tests.support",
    "tests.compat.cases",
    "tests.compat.group_cases",
    "tests.compat.group_crew",
    "tests.compat.transaction_cases",
)

from tests.support.clusters.broker_under_test import BrokerUnderTest, make_topic, running_broker  # noqa: E402
from tests.support.requirements import look_for  # noqa: E402
from tests.support.turns import TURNS, turn_of  # noqa: E402

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TopicFactory = Callable[..., str]
# Child processes do without Hypothesis; the file in the folder says why.
WITHOUT_HYPOTHESIS = Path(__file__).parent / "support/without_hypothesis"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(WITHOUT_HYPOTHESIS), os.environ.get("PYTHONPATH", "")]))

# A shell starts its background jobs with SIGINT ignored, and what they start inherits that: no process would end by
# Ctrl-C, although tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKED = Path(__file__).parent / "unit"
LEFT_TO_OTHER_TURNS = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was run before, and what has its turn at another time, if that is said."""
    left_out: set[pytest.Item] = set()
    if os.environ.get("OTTLA_TESTS_CHECKED"):
        left_out |= {
            each for each in items if each.get_closest_marker("slow") is None and each.path.is_relative_to(CHECKED)
        }
    if turn := os.environ.get("OTTLA_TURN"):
        of_others = {each for each in items if turn_of(each.nodeid) not in {None, int(turn) % TURNS}}
        config.stash[LEFT_TO_OTHER_TURNS] = len(of_others)
        left_out |= of_others
    config.hook.pytest_deselected(items=[each for each in items if each in left_out])
    items[:] = [each for each in items if each not in left_out]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Take it for no error that all tests of a suite have their turn at another time."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(LEFT_TO_OTHER_TURNS, 0):
        session.exitstatus = pytest.ExitCode.OK


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look for what a test needs."""
    look_for(item.iter_markers("requires"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    """The broker under test, one for the whole run."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: BrokerUnderTest) -> str:
    """The address of the broker under test."""
    return broker.bootstrap


@pytest.fixture
def new_topic(bootstrap: str) -> TopicFactory:
    """A function that creates a topic of its own: `new_topic(partitions=3, configs={...})` returns its name."""

    def create(*, partitions: int = 1, configs: dict[str, str | None] | None = None) -> str:
        return make_topic(bootstrap, partitions=partitions, configs=configs)

    return create


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Spark, one for the whole run; without Java its tests fail and say how to install it."""
    from tests.support.spark.spark_session import running_spark  # noqa: PLC0415 - only for those who use it

    with running_spark() as session:
        yield session
