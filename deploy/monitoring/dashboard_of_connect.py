"""The dashboard of Connect."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, graph, number
from deploy.monitoring.shared_rows import CONNECTOR, RATE, of_process

TASK: Final = "{{connector}} {{task}}"

CONNECT: Final = Dashboard(
    uid="ottla-connect",
    title="Ottla: Connect",
    description="Connectors, their tasks and their workers.",
    variables=[CONNECTOR],
    rows=[
        Row(
            "Is it well?",
            [
                number(
                    "Failed connectors",
                    "Connectors that do nothing until they are restarted.",
                    'sum(ottla_connect_connectors{state="FAILED",@})',
                    wrong_from=1,
                ),
                number(
                    "Failed tasks",
                    "Tasks that do nothing until they are restarted.",
                    'sum(ottla_connect_tasks{state="FAILED",@}) or vector(0)',
                    wrong_from=1,
                ),
                number("Running tasks", "Tasks that work.", 'sum(ottla_connect_tasks{state="RUNNING",@})'),
                number(
                    "Longest wait",
                    "How long a task has been waiting for what it needs.",
                    "max(ottla_connect_waiting_time_milliseconds{@})",
                    unit="ms",
                ),
                number(
                    "Dead letters",
                    "Records sent to dead letter topics in the last hour.",
                    "sum(increase(ottla_connect_deadletterqueue_produce_requests_total{@}[1h]))",
                    wrong_from=1,
                ),
                number("Workers", "Workers that are members of their group.", "sum(ottla_connect_member{@})"),
            ],
        ),
        Row(
            "Records",
            [
                graph(
                    "Read by sources",
                    "cps",
                    "Records that source tasks have brought.",
                    (
                        f"sum by (connector) (rate(ottla_connect_source_record_poll_total{{@}}{RATE}))",
                        "{{connector}}",
                    ),
                    width=6,
                ),
                graph(
                    "Written by sources",
                    "cps",
                    "Records that topics have acknowledged.",
                    (
                        f"sum by (connector) (rate(ottla_connect_source_record_write_total{{@}}{RATE}))",
                        "{{connector}}",
                    ),
                    width=6,
                ),
                graph(
                    "Read by sinks",
                    "cps",
                    "Records that sink tasks have read from topics.",
                    (f"sum by (connector) (rate(ottla_connect_sink_record_read_total{{@}}{RATE}))", "{{connector}}"),
                    width=6,
                ),
                graph(
                    "Written by sinks",
                    "cps",
                    "Records that sink tasks have taken.",
                    (f"sum by (connector) (rate(ottla_connect_sink_record_send_total{{@}}{RATE}))", "{{connector}}"),
                    width=6,
                ),
            ],
        ),
        Row(
            "Tasks",
            [
                graph(
                    "Tasks by state",
                    "short",
                    "What tasks are doing.",
                    ("sum by (connector, state) (ottla_connect_tasks{@})", "{{connector}} {{state}}"),
                    is_stacked=True,
                ),
                graph(
                    "Records under way",
                    "short",
                    "Records that sources have read and topics have not acknowledged; many are a slow cluster.",
                    ("ottla_connect_source_record_active_count{@}", TASK),
                ),
                graph(
                    "Records waiting for sinks",
                    "short",
                    "Records that sinks have read and not taken; many are a slow target.",
                    ("ottla_connect_sink_record_active_count{@}", TASK),
                ),
                graph(
                    "Time of a poll",
                    "ms",
                    "Average time in which a source answers.",
                    ("ottla_connect_poll_batch_avg_time_milliseconds{@}", TASK),
                ),
                graph(
                    "Time of a put",
                    "ms",
                    "Average time in which a target takes a batch.",
                    ("ottla_connect_put_batch_avg_time_milliseconds{@}", TASK),
                ),
                graph(
                    "Batch",
                    "short",
                    "Average number of records in a batch.",
                    ("ottla_connect_batch_size_avg{@}", TASK),
                ),
            ],
        ),
        Row(
            "Errors",
            [
                graph(
                    "Failures",
                    "cps",
                    "Failures with records, before they were tried again.",
                    (f"sum by (connector) (rate(ottla_connect_record_failures_total{{@}}{RATE}))", "{{connector}}"),
                ),
                graph(
                    "Skipped",
                    "cps",
                    "Records that were left out because of an error.",
                    (f"sum by (connector) (rate(ottla_connect_records_skipped_total{{@}}{RATE}))", "{{connector}}"),
                ),
                graph(
                    "Dead letters",
                    "cps",
                    "Records sent to dead letter topics.",
                    (
                        f"sum by (connector) (rate(ottla_connect_deadletterqueue_produce_requests_total{{@}}{RATE}))",
                        "{{connector}}",
                    ),
                ),
                graph(
                    "Commits of offsets",
                    "cps",
                    "Commits that succeeded.",
                    (
                        f"sum by (connector) (rate(ottla_connect_offset_commit_completion_total{{@}}{RATE}))",
                        "{{connector}}",
                    ),
                ),
                graph(
                    "Failed commits",
                    "cps",
                    "Commits that failed: work since the last one is done again after a restart.",
                    (
                        f"sum by (connector) (rate(ottla_connect_offset_commit_failure_total{{@}}{RATE}))",
                        "{{connector}}",
                    ),
                ),
                graph(
                    "Time of a commit",
                    "ms",
                    "Average time of a commit of offsets.",
                    ("ottla_connect_offset_commit_avg_time_milliseconds{@}", TASK),
                ),
            ],
        ),
        Row(
            "Workers",
            [
                graph(
                    "Assignments",
                    "cps",
                    "Assignments carried out; tasks move with each.",
                    ("rate(ottla_connect_rebalances_total{@}" + RATE + ")", "{{instance}}"),
                ),
                graph(
                    "Lost memberships",
                    "cps",
                    "Workers that were thrown out of their group.",
                    ("rate(ottla_connect_memberships_lost_total{@}" + RATE + ")", "{{instance}}"),
                ),
                graph(
                    "REST",
                    "reqps",
                    "Requests by status.",
                    (f"sum by (status) (rate(ottla_connect_rest_requests_total{{@}}{RATE}))", "{{status}}"),
                ),
            ],
        ),
        of_process("connect"),
    ],
)
