"""The dashboard of single brokers."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, graph, number
from deploy.monitoring.shared_rows import BROKER, RATE, of_process, quantile

BROKERS: Final = Dashboard(
    uid="ottla-broker",
    title="Ottla: brokers",
    description="What single brokers do, and what limits them.",
    variables=[BROKER],
    rows=[
        Row(
            "Is it well?",
            [
                number(
                    "Under min ISR",
                    "Partitions led here that refuse acks=all.",
                    "sum(ottla_broker_under_min_isr_partitions{@})",
                    wrong_from=1,
                ),
                number(
                    "Failed logs",
                    "Replicas that take no more records since an fsync or a read has failed.",
                    "sum(ottla_broker_failed_logs{@})",
                    wrong_from=1,
                ),
                number(
                    "Logs that lack records",
                    "Logs of which the disk has lost committed records.",
                    "sum(ottla_broker_lacking_logs{@})",
                    wrong_from=1,
                ),
                number(
                    "Leaders that wait",
                    "Partitions that are led once it is known that no replica has a longer log.",
                    "sum(ottla_broker_longest_log_searches{@})",
                    wrong_from=1,
                ),
                number(
                    "Uncleanable logs",
                    "Logs that cannot be compacted.",
                    "sum(ottla_broker_uncleanable_logs{@})",
                    wrong_from=1,
                ),
                number(
                    "Least disk left",
                    "Share of the fullest disk that is free.",
                    "min(ottla_broker_disk_free_bytes{@} / ottla_broker_disk_size_bytes{@})",
                    unit="percentunit",
                ),
            ],
        ),
        Row(
            "Requests",
            [
                graph(
                    "Requests",
                    "reqps",
                    "Requests of clients and followers, by API.",
                    (f"sum by (api) (rate(ottla_broker_requests_total{{@}}{RATE}))", "{{api}}"),
                    is_stacked=True,
                ),
                graph(
                    "Connections",
                    "short",
                    "Connections that are open.",
                    ("ottla_broker_connections{@}", "{{instance}}"),
                ),
                graph(
                    "New connections",
                    "cps",
                    "Many are clients that do not keep theirs.",
                    (f"rate(ottla_broker_connections_accepted_total{{@}}{RATE})", "{{instance}}"),
                ),
                graph(
                    "Fetch sessions",
                    "short",
                    "Fetch sessions that are kept.",
                    ("ottla_broker_fetch_sessions{@}", "{{instance}}"),
                ),
                graph(
                    "Partitions of fetch sessions",
                    "short",
                    "Partitions in all fetch sessions.",
                    ("ottla_broker_fetch_session_partitions{@}", "{{instance}}"),
                ),
                graph(
                    "Evicted fetch sessions",
                    "cps",
                    "Above nought there are more readers than sessions.",
                    (f"rate(ottla_broker_fetch_session_evictions_total{{@}}{RATE})", "{{instance}}"),
                ),
            ],
        ),
        Row(
            "Time and errors of requests",
            [
                graph(
                    "Time of requests",
                    "s",
                    "99 of 100 take less, by API.",
                    (quantile(0.99, "ottla_broker_request_time_seconds", "api"), "{{api}}"),
                ),
                graph(
                    "Parts of Produce",
                    "percentunit",
                    "Where the time goes: seconds for each second, all requests together.",
                    (
                        f'sum by (part) (rate(ottla_broker_request_part_time_seconds_sum{{api="Produce",@}}{RATE}))',
                        "{{part}}",
                    ),
                    is_stacked=True,
                ),
                graph(
                    "Errors",
                    "cps",
                    "Errors that clients were told.",
                    (
                        f"sum by (api, error) (rate(ottla_broker_request_errors_total{{@}}{RATE}))",
                        "{{api}} {{error}}",
                    ),
                ),
            ],
        ),
        Row(
            "Replication",
            [
                graph(
                    "Partitions",
                    "short",
                    "Partitions that are led, and that are followed.",
                    ("ottla_broker_partitions{@}", "{{instance}} {{role}}"),
                ),
                graph(
                    "Fetched from leaders",
                    "Bps",
                    "Bytes of records.",
                    (f"rate(ottla_broker_replicated_size_bytes_total{{@}}{RATE})", "{{instance}}"),
                ),
                graph(
                    "Fetchers",
                    "short",
                    "Connections over which leaders are asked.",
                    ("ottla_broker_replica_fetchers{@}", "{{instance}}"),
                ),
            ],
        ),
        Row(
            "Disks",
            [
                graph("Logs", "bytes", "Bytes of all logs.", ("ottla_broker_log_size_bytes{@}", "{{instance}}")),
                graph(
                    "Disk left",
                    "bytes",
                    "What may still be written, by log directory.",
                    ("ottla_broker_disk_free_bytes{@}", "{{instance}} {{directory}}"),
                ),
                graph(
                    "Time until full",
                    "s",
                    "As it filled in the last hour; nothing is drawn while it does not fill.",
                    ("ottla_broker_disk_until_full_seconds{@}", "{{instance}} {{directory}}"),
                ),
            ],
        ),
        Row(
            "Compaction",
            [
                graph(
                    "Rounds",
                    "cps",
                    "Finished rounds of compaction.",
                    (f"rate(ottla_broker_compaction_rounds_total{{@}}{RATE})", "{{instance}}"),
                ),
                graph(
                    "Bytes",
                    "Bps",
                    "What compaction reads and writes.",
                    (
                        f"sum by (instance, direction) (rate(ottla_broker_compaction_size_bytes_total{{@}}{RATE}))",
                        "{{instance}} {{direction}}",
                    ),
                ),
                graph(
                    "Dirtiest log",
                    "percentunit",
                    "Share that waits to be compacted.",
                    ("ottla_broker_compaction_dirty_ratio_max{@}", "{{instance}}"),
                ),
            ],
        ),
        Row(
            "Metrics that clients push",
            [
                graph(
                    "Latency as clients see it",
                    "ms",
                    "Of clients that a subscription asks for it, the twenty highest values.",
                    (
                        'topk(20, ottla_broker_client_metric_highest{metric=~".+latency.+",@})',
                        "{{client_id}} {{metric}}",
                    ),
                ),
                graph(
                    "Pushes",
                    "cps",
                    "Pushes of clients, by what became of them.",
                    (f"sum by (outcome) (rate(ottla_broker_client_pushes_total{{@}}{RATE}))", "{{outcome}}"),
                ),
                graph(
                    "Clients",
                    "short",
                    "Clients that have asked lately which metrics to push.",
                    ("ottla_broker_client_instances{@}", "{{instance}}"),
                ),
            ],
        ),
        of_process("broker"),
    ],
)
