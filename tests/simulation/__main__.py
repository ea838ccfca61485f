"""Replay a seed and print what happened: `python -m tests.simulation SEED`.

`--rule` breaks a rule of `broken_rules.py`, in the trouble that shows it; `--often` says what goes wrong more often;
`--history` goes through one of `histories.py` in place of what the seed says.
"""

import argparse

from tests.simulation.broken_rules import BROKEN_RULES, broken, without_defence
from tests.simulation.cluster import SimulatedCluster, SimulationFailed
from tests.simulation.faults import WEIGHTS
from tests.simulation.histories import HISTORIES
from tests.simulation.noticing import TROUBLE_THAT_SHOWS
from tests.simulation.scripted import ScriptedCluster


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", type=int)
    parser.add_argument("--rule", choices=BROKEN_RULES, default="", metavar="NAME")
    parser.add_argument("--often", choices=WEIGHTS, nargs="+", metavar="TROUBLE")
    parser.add_argument("--history", choices=HISTORIES, metavar="NAME")
    parser.add_argument("--lines", type=int, default=None, help="show only the last lines of the trace")
    return parser.parse_args()


def _cluster(arguments: argparse.Namespace) -> SimulatedCluster:
    rule = arguments.rule
    if arguments.history is not None:
        return ScriptedCluster(arguments.seed, arguments.history, HISTORIES[arguments.history], rule)
    often = TROUBLE_THAT_SHOWS.get(rule, ()) if arguments.often is None else arguments.often
    return SimulatedCluster(arguments.seed, often, rule)


def main() -> None:
    """Replay one run."""
    arguments = _parsed()
    cluster = _cluster(arguments)
    surroundings = broken(arguments.rule) if arguments.rule else without_defence(arguments.history or "")
    try:
        with surroundings:
            outcome: object = cluster.run()
    except SimulationFailed as failed:
        outcome = f"violated: {failed.rule}"
    print("\n".join(cluster.schedule.trace_lines(arguments.lines)))
    print(outcome)


if __name__ == "__main__":
    main()
