"""ETLs of several clients while brokers are killed, with Ottla and Apache Kafka.

    python -m tests.compat.etl --clusters ottla kafka --rounds 3

Prints a table with a line for each client and cluster. Ends with 1 if with Ottla a record was lost, or came twice
without an explanation.
"""

import argparse
import sys
from collections import Counter
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from tests.compat.etl.clusters import Cluster, running_kafka, running_ottla
from tests.compat.etl.crew import CLIENTS
from tests.compat.etl.run import Outcome, Plan, run

KAFKA, OTTLA = "kafka", "ottla"
CLUSTERS = {KAFKA: running_kafka, OTTLA: running_ottla, "ottla-hosts": partial(running_ottla, coordinators_too=True)}
COLUMNS = ("client", "cluster", "records", "lost", "repeats explained", "unexplained", "assignments", "longest pause")
PROBLEMS_SHOWN_MAX = 5


def main() -> int:
    options = _options()
    plan = Plan(
        clients=options.clients,
        workers=options.workers,
        kills=options.kills,
        rate_per_s=options.rate,
        kill_every_s=options.every,
        workers_too=options.workers_too,
    )
    found: dict[tuple[str, str], list[Outcome]] = {}
    for number in range(options.rounds):
        for name in options.clusters:
            here = options.directory / f"{name}-{number}"
            running: AbstractContextManager[Cluster] = CLUSTERS[name](here / "cluster")
            with running as cluster:
                outcomes = run(cluster, plan, here / "workers", _say)
            for outcome in outcomes:
                found.setdefault((outcome.client, name), []).append(outcome)
                _show(name, outcome)
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for (client, name), outcomes in sorted(found.items()):
        print(_line(client, name, outcomes))
    return int(any(is_wrong(each) for (_, name), outcomes in found.items() if name != KAFKA for each in outcomes))


def is_wrong(outcome: Outcome) -> bool:
    """Whether something happened that must not."""
    verdict = outcome.verdict
    return bool(verdict.lost or verdict.wrong or verdict.unexplained or outcome.missing)


def _line(client: str, cluster: str, outcomes: list[Outcome]) -> str:
    verdicts = [outcome.verdict for outcome in outcomes]
    explained: Counter[str] = Counter()
    for verdict in verdicts:
        explained.update(verdict.explained)
    why = "; ".join(f"{count} {reason}" for reason, count in explained.most_common())
    cells = (
        client,
        cluster,
        sum(verdict.records for verdict in verdicts),
        sum(len(verdict.lost) + len(verdict.wrong) for verdict in verdicts) + sum(each.missing for each in outcomes),
        f"{explained.total()}" + (f" ({why})" if why else ""),
        sum(len(verdict.unexplained) for verdict in verdicts),
        sum(outcome.history.assignments for outcome in outcomes),
        f"{max(verdict.longest_pause_s for verdict in verdicts):.1f} s",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _show(cluster: str, outcome: Outcome) -> None:
    """Says of one run what the table leaves out."""
    _say(_line(outcome.client, cluster, [outcome]))
    verdict, history = outcome.verdict, outcome.history
    if history.refusals:
        _say(f"  commits refused: {dict(history.refusals)}")
    if outcome.behind:
        _say("  had not come to the end when it was stopped")
    for problem in (*history.failures, *map(str, verdict.lost), *verdict.unexplained)[:PROBLEMS_SHOWN_MAX]:
        _say(f"  {problem}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.etl")
    parser.add_argument("--clusters", nargs="+", choices=CLUSTERS, default=[OTTLA])
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kills", type=int, default=8, help="in a round")
    parser.add_argument("--every", type=float, default=8.0, help="seconds from one death to the next, at least")
    parser.add_argument("--workers", type=int, default=2, help="of each client")
    parser.add_argument("--workers-too", action="store_true", help="kill a worker of each client with each broker")
    parser.add_argument("--rate", type=float, default=60.0, help="records for each client in a second")
    parser.add_argument("--directory", type=Path, required=True, help="for clusters, logs and notes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
