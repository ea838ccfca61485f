"""The dashboard of a whole cluster."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Panel, Row, graph, number
from deploy.monitoring.shared_rows import RATE, of_process, quantile

STATE: Final[list[Panel]] = [
    number(
        "Offline partitions",
        "Partitions without a leader.",
        "max(ottla_controller_offline_partitions{@})",
        wrong_from=1,
    ),
    number(
        "Under min ISR",
        "Partitions that refuse acks=all.",
        "sum(ottla_broker_under_min_isr_partitions{@})",
        wrong_from=1,
    ),
    number(
        "Under-replicated",
        "Partitions that lack a replica in sync.",
        "max(ottla_controller_under_replicated_partitions{@})",
        wrong_from=1,
    ),
    number(
        "Groups without coordinator",
        "Partitions of __consumer_offsets that no group coordinator owns.",
        "max(ottla_controller_shards_without_coordinator{@})",
        wrong_from=1,
    ),
    number("Controllers that lead", "One, or the cluster changes nothing.", "sum(ottla_controller_leads{@})"),
    number(
        "Targets that are away",
        "Processes that Prometheus cannot read.",
        'count(up{job=~"ottla-.+|etcd",@}) - sum(up{job=~"ottla-.+|etcd",@})',
        wrong_from=1,
    ),
]

CLUSTER: Final = Dashboard(
    uid="ottla-cluster",
    title="Ottla: cluster",
    description="Whether the cluster is well, and what it does as a whole.",
    rows=[
        Row("Is it well?", STATE),
        Row(
            "What it has",
            [
                number("Brokers", "Brokers in service.", "max(ottla_controller_brokers{@})"),
                number(
                    "Group coordinators",
                    "Group coordinators in service.",
                    "max(ottla_controller_group_coordinators{@})",
                ),
                number("Topics", "Topics of the cluster.", "max(ottla_controller_topics{@})"),
                number("Partitions", "Partitions of all topics.", 'sum(ottla_broker_partitions{role="leader",@})'),
                number("Stored", "Bytes of all logs.", "sum(ottla_broker_log_size_bytes{@})", unit="bytes"),
                number(
                    "Least disk left",
                    "Share of the fullest disk that is free.",
                    "min(ottla_broker_disk_free_bytes{@} / ottla_broker_disk_size_bytes{@})",
                    unit="percentunit",
                ),
            ],
        ),
        Row(
            "Load",
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
                    "Open connections of clients, by broker.",
                    ("ottla_broker_connections{@}", "{{instance}}"),
                    is_stacked=True,
                ),
                graph(
                    "Replication",
                    "Bps",
                    "What followers fetch from leaders, by follower.",
                    (f"rate(ottla_broker_replicated_size_bytes_total{{@}}{RATE})", "{{instance}}"),
                    is_stacked=True,
                ),
            ],
        ),
        Row(
            "Replicas",
            [
                graph(
                    "Elections",
                    "cps",
                    "Leaders that were elected; an unclean one may have lacked records.",
                    (f"max by (kind) (rate(ottla_controller_elections_total{{@}}{RATE}))", "{{kind}}"),
                ),
                graph(
                    "In-sync sets",
                    "cps",
                    "Shrinks are followers that fell behind, expansions those that are back.",
                    (f"sum by (change) (rate(ottla_broker_isr_changes_total{{@}}{RATE}))", "{{change}}"),
                ),
                graph(
                    "Under-replicated",
                    "short",
                    "Partitions that lack a replica in sync, by leader.",
                    ("ottla_broker_under_replicated_partitions{@}", "{{instance}}"),
                ),
                graph(
                    "Moves and leaders",
                    "short",
                    "Partitions that are being moved, and those led by another replica than the first.",
                    ("max(ottla_controller_reassigning_partitions{@})", "moving"),
                    ("max(ottla_controller_preferred_replica_imbalance{@})", "not led by the preferred replica"),
                ),
            ],
        ),
        Row(
            "etcd",
            [
                graph(
                    "Time of etcd, as processes see it",
                    "s",
                    "99 of 100 requests take less, by operation.",
                    (quantile(0.99, "ottla_etcd_time_seconds", "operation"), "{{operation}}"),
                ),
                graph(
                    "fsync of etcd",
                    "s",
                    "99 of 100 take less; above 10 ms its disk is too slow.",
                    (quantile(0.99, "etcd_disk_wal_fsync_duration_seconds", "instance"), "{{instance}}"),
                ),
                graph(
                    "Database of etcd",
                    "percentunit",
                    "Share of the quota; at the quota nothing can be changed.",
                    ("etcd_mvcc_db_total_size_in_bytes{@} / etcd_server_quota_backend_bytes{@}", "{{instance}}"),
                ),
            ],
        ),
        of_process("controller"),
    ],
)
