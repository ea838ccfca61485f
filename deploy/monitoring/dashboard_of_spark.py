"""The dashboard of jobs on Spark."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, graph, number
from deploy.monitoring.shared_rows import CONNECTOR

OUTPUT: Final = "{{connector}} {{name}}"


def spark(reading: str) -> str:
    """Return what jobs on Spark measure under a name, by their outputs."""
    return f'ottla_connect_plugin_reading{{name=~".+-{reading}",@}}'


SPARK: Final = Dashboard(
    uid="ottla-spark",
    title="Ottla: Spark",
    description="Jobs on Spark that Connect runs.",
    variables=[CONNECTOR],
    rows=[
        Row(
            "Is it well?",
            [
                number(
                    "Failed tasks",
                    "Tasks that do nothing until they are restarted.",
                    'sum(ottla_connect_tasks{state="FAILED",@}) or vector(0)',
                    wrong_from=1,
                ),
                number(
                    "Records behind", "Records of topics that jobs have not read yet.", f"sum({spark('lag-records')})"
                ),
                number("Outputs", "Outputs of all jobs.", f"count({spark('batch')})"),
                number(
                    "Longest batch", "Time of the longest batch.", f"max({spark('batch-duration-ms')})", unit="ms"
                ),
            ],
        ),
        Row(
            "Batches",
            [
                graph(
                    "Rows that come",
                    "cps",
                    "Rows that come each second, by output.",
                    (spark("input-rows-per-second"), OUTPUT),
                ),
                graph(
                    "Rows processed",
                    "cps",
                    "Rows that a batch processes each second; below the rows that come, a job falls behind.",
                    (spark("processed-rows-per-second"), OUTPUT),
                ),
                graph("Time of a batch", "ms", "How long the last batch took.", (spark("batch-duration-ms"), OUTPUT)),
                graph("Lag", "short", "Records that are not read yet.", (spark("lag-records"), OUTPUT)),
                graph("State in rows", "short", "Rows that windows and joins keep.", (spark("state-rows"), OUTPUT)),
                graph("State in bytes", "bytes", "What these rows take in memory.", (spark("state-bytes"), OUTPUT)),
            ],
        ),
    ],
)
