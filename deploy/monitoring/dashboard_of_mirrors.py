"""The dashboard of mirrors and links."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, Variable, graph, number
from deploy.monitoring.shared_rows import RATE, of_process

FLOW: Final = Variable("flow", "Flow", "ottla_mirror_flow_problem")
TOPIC: Final = Variable("topic", "Topic", "ottla_mirror_partition_lag_records")

MIRROR: Final = Dashboard(
    uid="ottla-mirror",
    title="Ottla: mirrors and links",
    description="Flows of mirror workers, and linked topics.",
    variables=[FLOW, TOPIC],
    rows=[
        Row(
            "Is it well?",
            [
                number(
                    "Flows with problems",
                    "Flows from which something keeps a worker.",
                    "sum(ottla_mirror_flow_problem{@})",
                    wrong_from=1,
                ),
                number(
                    "Longest lag",
                    "For how long a source has had records that are not copied.",
                    "max(ottla_mirror_partition_lag_seconds{@})",
                    unit="s",
                    wrong_from=300,
                ),
                number(
                    "Records to copy",
                    "Records of sources that are not copied.",
                    "sum(ottla_mirror_partition_lag_records{@})",
                ),
                number(
                    "Partitions not copied",
                    "Partitions that are paused, wait or have halted.",
                    "count(ottla_mirror_partition_copying{@}) - sum(ottla_mirror_partition_copying{@})",
                    wrong_from=1,
                ),
                number(
                    "Linked partitions that run",
                    "Linked partitions that are fetched.",
                    'sum(ottla_broker_link_partitions{state="RUNNING",@})',
                ),
                number(
                    "Lag of links",
                    "Offsets of sources that linked partitions do not have yet.",
                    "sum(ottla_broker_link_lag{@})",
                ),
            ],
        ),
        Row(
            "Flows",
            [
                graph(
                    "Records",
                    "cps",
                    "Records copied.",
                    (f"sum by (flow) (rate(ottla_mirror_partition_records_total{{@}}{RATE}))", "{{flow}}"),
                ),
                graph(
                    "Bytes",
                    "Bps",
                    "Bytes of the batches copied.",
                    (f"sum by (flow) (rate(ottla_mirror_partition_bytes_total{{@}}{RATE}))", "{{flow}}"),
                ),
                graph(
                    "Lag in time",
                    "s",
                    "For how long the source has had records that are not copied.",
                    ("max by (flow, topic) (ottla_mirror_partition_lag_seconds{@})", "{{flow}} {{topic}}"),
                ),
                graph(
                    "Lag in records",
                    "short",
                    "Records of the source that are not copied.",
                    ("sum by (flow, topic) (ottla_mirror_partition_lag_records{@})", "{{flow}} {{topic}}"),
                ),
                graph(
                    "Missed and refused",
                    "short",
                    "Records that the target lacks: removed by the source before, or refused by the target.",
                    (
                        "sum by (flow, topic) (ottla_mirror_partition_records_missed_total{@})",
                        "{{flow}} {{topic}} missed",
                    ),
                    (
                        "sum by (flow, topic) (ottla_mirror_partition_records_refused_total{@})",
                        "{{flow}} {{topic}} refused",
                    ),
                ),
                graph(
                    "Groups",
                    "s",
                    "How long ago a group's offsets were translated.",
                    ("time() - ottla_mirror_group_checkpoint_timestamp_seconds{@}", "{{flow}} {{group}}"),
                ),
            ],
        ),
        Row(
            "Links",
            [
                graph(
                    "Lag",
                    "short",
                    "Offsets of the source that linked partitions do not have yet.",
                    ("sum by (link) (ottla_broker_link_lag{@})", "{{link}}"),
                    width=6,
                ),
                graph(
                    "Partitions by state",
                    "short",
                    "What linked partitions are doing.",
                    ("sum by (link, state) (ottla_broker_link_partitions{@})", "{{link}} {{state}}"),
                    width=6,
                    is_stacked=True,
                ),
                graph(
                    "Problems",
                    "short",
                    "What is not as in the source.",
                    ("sum by (link, kind) (ottla_broker_link_problems{@})", "{{link}} {{kind}}"),
                    width=6,
                ),
                graph(
                    "Since in step",
                    "s",
                    "How long ago topics and groups were in step with the source.",
                    (
                        "time() - max by (link, what) (ottla_broker_link_in_step_timestamp_seconds{@})",
                        "{{link}} {{what}}",
                    ),
                    width=6,
                ),
            ],
        ),
        of_process("mirror"),
    ],
)
