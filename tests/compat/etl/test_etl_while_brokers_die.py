"""ETLs of several clients lose nothing and read nothing again that they had committed, while brokers and workers die.

`python -m tests.compat.etl` runs the same for longer, with Java's clients, and with Apache Kafka for comparison.
"""

import sys

import pytest

from tests.compat.etl.clusters import running_ottla
from tests.compat.etl.crew import PYTHON_CLIENTS
from tests.compat.etl.run import Outcome, Plan, run

pytestmark = pytest.mark.slow

KILLS = 2


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Of one run, in which a broker, a group coordinator and a worker of each client die together, twice."""
    directory = tmp_path_factory.mktemp("etl")
    plan = Plan(clients=PYTHON_CLIENTS, kills=KILLS, kill_every_s=6.0, workers_too=True)
    with running_ottla(directory / "cluster", coordinators_too=True) as cluster:
        return run(cluster, plan, directory / "workers", lambda text: print(text, file=sys.stderr))


def test_every_record_arrives_as_it_should(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert not outcome.missing, f"{outcome.client}: {outcome.missing} acknowledged records are not in the source"
        assert not outcome.behind, f"{outcome.client}: stands still"
        assert not outcome.verdict.lost, f"{outcome.client}: lost {outcome.verdict.lost}"
        assert not outcome.verdict.wrong, f"{outcome.client}: wrong {outcome.verdict.wrong}"


def test_nothing_is_read_again_whose_commit_was_acknowledged(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert not outcome.verdict.unexplained, f"{outcome.client}: {outcome.verdict.unexplained[:5]}"
        # Else nobody has looked up what was committed.
        assert len({claim.worker for claim in outcome.history.claims}) > KILLS, f"{outcome.client}: nobody took over"
