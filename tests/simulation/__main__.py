"""Replay seeds and print what happened: `python -m tests.simulation SEED [--lines N]`."""

import argparse

from tests.simulation.cluster import SimulatedCluster, SimulationFailed


def main() -> None:
    """Replay one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--lines", type=int, default=None, help="show only the last lines of the trace")
    arguments = parser.parse_args()
    cluster = SimulatedCluster(arguments.seed)
    try:
        outcome: object = cluster.run()
    except SimulationFailed as failed:
        outcome = f"violated: {failed.rule}"
    print("\n".join(cluster.schedule.trace_lines(arguments.lines)))
    print(outcome)


if __name__ == "__main__":
    main()
