"""Fixtures that the suites against a running broker share; unit tests use none of them."""

from collections.abc import Callable, Iterator

import hypothesis
import pytest

pytest.register_assert_rewrite(
    "tests.support", "tests.compat.cases", "tests.compat.group_cases", "tests.compat.group_crew"
)

from tests.support.broker_under_test import BrokerUnderTest, make_topic, running_broker  # noqa: E402

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

TopicFactory = Callable[..., str]


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
