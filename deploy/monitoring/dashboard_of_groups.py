"""The dashboard of consumer groups."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, Variable, graph, number
from deploy.monitoring.shared_rows import RATE, of_process

GROUPS: Final = Dashboard(
    uid="ottla-groups",
    title="Ottla: groups",
    description="Consumer groups and their coordinators.",
    variables=[Variable("instance", "Group coordinator", "ottla_coordinator_members")],
    rows=[
        Row(
            "Is it well?",
            [
                number(
                    "Without coordinator",
                    "Partitions of __consumer_offsets that no group coordinator owns.",
                    "max(ottla_controller_shards_without_coordinator)",
                    wrong_from=1,
                ),
                number("Groups", "Groups of all protocols.", "sum(ottla_coordinator_groups{@})"),
                number("Members", "Members of all groups.", "sum(ottla_coordinator_members{@})"),
                number("Offsets", "Committed offsets.", "sum(ottla_coordinator_offsets{@})"),
                number(
                    "Storage timeouts",
                    "Rounds that were not stored in time, in the last hour.",
                    "sum(increase(ottla_coordinator_append_timeouts_total{@}[1h]))",
                    wrong_from=1,
                ),
                number(
                    "Failures",
                    "Shards loaded again because of a failure, in the last hour.",
                    "sum(increase(ottla_coordinator_failures_total{@}[1h]))",
                    wrong_from=1,
                ),
            ],
        ),
        Row(
            "Lag",
            [
                graph(
                    "Lag in records",
                    "short",
                    "Records that the twenty groups and topics furthest behind have not committed yet.",
                    ("topk(20, ottla_coordinator_group_lag_records{@})", "{{group}} {{topic}}"),
                    width=12,
                ),
                graph(
                    "Lag in time",
                    "s",
                    "For how long the first record not committed yet has been there.",
                    ("topk(20, ottla_coordinator_group_lag_seconds{@})", "{{group}} {{topic}}"),
                    width=12,
                ),
            ],
        ),
        Row(
            "Groups",
            [
                graph(
                    "Groups by state",
                    "short",
                    "Stable ones read; the others rebalance or have no members.",
                    ("sum by (protocol, state) (ottla_coordinator_groups{@})", "{{protocol}} {{state}}"),
                    is_stacked=True,
                ),
                graph(
                    "Rebalances",
                    "cps",
                    "While a classic group rebalances its members stop.",
                    (f"sum by (protocol) (rate(ottla_coordinator_rebalances_total{{@}}{RATE}))", "{{protocol}}"),
                ),
                graph(
                    "Time of rebalances",
                    "percentunit",
                    "Share of time that classic groups spend in rebalances, all together.",
                    (
                        f"sum by (instance) (rate(ottla_coordinator_rebalance_time_seconds_total{{@}}{RATE}))",
                        "{{instance}}",
                    ),
                ),
            ],
        ),
        Row(
            "Requests",
            [
                graph(
                    "Requests",
                    "reqps",
                    "Requests about groups, by API.",
                    (f"sum by (api) (rate(ottla_coordinator_requests_total{{@}}{RATE}))", "{{api}}"),
                    is_stacked=True,
                ),
                graph(
                    "Refused",
                    "reqps",
                    "Requests for shards that were not there, by error.",
                    (f"sum by (error) (rate(ottla_coordinator_requests_refused_total{{@}}{RATE}))", "{{error}}"),
                ),
                graph(
                    "Waiting at brokers",
                    "short",
                    "Requests that group coordinators have not answered yet.",
                    ("ottla_broker_group_requests_waiting", "{{instance}}"),
                ),
            ],
        ),
        Row(
            "Storage",
            [
                graph(
                    "Time of an append",
                    "s",
                    "Average time until members and offsets are stored.",
                    (
                        f"rate(ottla_coordinator_append_time_seconds_total{{@}}{RATE})"
                        f" / rate(ottla_coordinator_appends_total{{@}}{RATE})",
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Stored",
                    "Bps",
                    "Bytes of records about groups.",
                    (f"rate(ottla_coordinator_append_size_bytes_total{{@}}{RATE})", "{{instance}}"),
                ),
                graph(
                    "Shards",
                    "short",
                    "Partitions of __consumer_offsets, by what they are doing.",
                    ("sum by (instance, status) (ottla_coordinator_shards{@})", "{{instance}} {{status}}"),
                ),
            ],
        ),
        of_process("group-coordinator"),
    ],
)
