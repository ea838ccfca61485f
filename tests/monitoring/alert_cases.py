"""For each alert, series with which it fires and series with which it does not.

Series are in promtool's notation, a value a minute: ``0+5x30`` grows by 5 for 30 minutes. What differs between the
two is what the alert is about, so that an alert which always fires, or never, is noticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla_core.observe.catalogue import CATALOGUE

Series = Mapping[str, str]
HALF_HOUR: Final = 30
QUICK, SLOW = 1 / 1024, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One alert.

    Attributes:
        fires: series with which it fires.
        quiet: series with which it does not.
        labels: those of the alert that fires.
        at_minutes: when it is looked at.
        hasty_minutes: when it does not fire yet, as what is wrong may pass; None: it fires at once.
    """

    fires: Series
    quiet: Series
    labels: Mapping[str, str] = field(default_factory=dict)
    at_minutes: int = HALF_HOUR
    hasty_minutes: int | None = None


def steady(series: str, wrong: float, right: float = 0, **more: object) -> Case:
    """A series that stays at one value."""
    return Case(fires={series: f"{wrong}x60"}, quiet={series: f"{right}x60"}, **more)  # type: ignore[arg-type]


def counter(series: str, **more: object) -> Case:
    """A counter that grows, and one that stays where it is."""
    return Case(fires={series: "7+1x60"}, quiet={series: "7x60"}, **more)  # type: ignore[arg-type]


def histogram(name: str, labels: str, seconds: float) -> Series:
    """Each minute a hundred times as long as this."""
    return {
        f'{name}_bucket{{{labels},le="{bound}"}}': "0+100x60" if seconds <= float(bound) else "0x60"
        for bound in [*map(str, CATALOGUE[name].buckets), "+Inf"]
    }


BROKER = 'cluster="a",job="ottla-broker",instance="broker-1"'
IS_BROKER = {"cluster": "a", "job": "ottla-broker", "instance": "broker-1"}
ETCD = 'cluster="a",job="etcd",instance="etcd-1"'
IS_ETCD = {"cluster": "a", "job": "etcd", "instance": "etcd-1"}
COORDINATOR = 'cluster="a",job="ottla-group-coordinator",instance="group-coordinator-1"'
IS_COORDINATOR = {"cluster": "a", "job": "ottla-group-coordinator", "instance": "group-coordinator-1"}
WORKER = 'cluster="a",job="ottla-connect",instance="connect-1"'
IS_WORKER = {"cluster": "a", "job": "ottla-connect", "instance": "connect-1"}
TASK = f'{WORKER},connector="orders",task="0"'
COPY = 'cluster="a",instance="mirror-1",flow="x->y",topic="t",partition="0"'
IS_FLOW = {"cluster": "a", "flow": "x->y"}
DISK = f'{BROKER},directory="/data"'
SIZE = {f"ottla_broker_disk_size_bytes{{{DISK}}}": "1000x200"}
FREE = f"ottla_broker_disk_free_bytes{{{DISK}}}"
IS_DISK = {**IS_BROKER, "directory": "/data"}
A = {"cluster": "a"}
GROUP_LAG = f'{{{COORDINATOR},group="readers",topic="flights"}}'
GROUP_SECONDS = f"ottla_coordinator_group_lag_seconds{GROUP_LAG}"
GROUP_RECORDS = f"ottla_coordinator_group_lag_records{GROUP_LAG}"
TRANSACTIONS_ENDING = f"ottla_coordinator_transactions_ending{{{COORDINATOR}}}"
MARKERS_REPEATED = f"ottla_coordinator_markers_repeated_total{{{COORDINATOR}}}"
SPARK_BATCH = {f'ottla_connect_plugin_reading{{{TASK},name="table-batch-duration-ms"}}': "80x10"}
FAILED_TASK = f'ottla_connect_tasks{{{WORKER},connector="orders",state="FAILED"}}'
OF_SPARK = f'ottla_connect_plugin_reading{{{TASK},name="table-lag-records"}}'

CLUSTER: Final[Mapping[str, Case]] = {
    "OttlaOfflinePartitions": steady(
        'ottla_controller_offline_partitions{cluster="a"}', 2, labels=A, hasty_minutes=0
    ),
    "OttlaUnderMinIsr": steady(f"ottla_broker_under_min_isr_partitions{{{BROKER}}}", 1, labels=A, hasty_minutes=0),
    "OttlaUnderReplicated": steady(
        'ottla_controller_under_replicated_partitions{cluster="a"}', 1, labels=A, hasty_minutes=14
    ),
    "OttlaNoActiveController": Case(
        fires={
            'ottla_controller_leads{cluster="a",instance="controller-1"}': "0x60",
            'ottla_controller_leads{cluster="b",instance="controller-1"}': "1x60",
        },
        quiet={
            'ottla_controller_leads{cluster="a",instance="controller-1"}': "0x60",
            'ottla_controller_leads{cluster="a",instance="controller-2"}': "1x60",
        },
        labels=A,
    ),
    "OttlaBrokerAway": steady(f"up{{{BROKER}}}", 0, 1, labels=IS_BROKER, hasty_minutes=0),
    "OttlaFewerBrokers": Case(
        fires={'ottla_controller_brokers{cluster="a"}': "3x20 2x40"},
        quiet={'ottla_controller_brokers{cluster="a"}': "2x20 3x40"},
        labels=A,
        hasty_minutes=20,
    ),
    "OttlaProcessAway": steady(f"up{{{WORKER}}}", 0, 1, labels=IS_WORKER, hasty_minutes=1),
    "OttlaShardsWithoutCoordinator": steady(
        'ottla_controller_shards_without_coordinator{cluster="a"}', 4, labels=A, hasty_minutes=0
    ),
}

OF_BROKERS: Final[Mapping[str, Case]] = {
    "OttlaDiskNearlyFull": Case(fires={FREE: "90x60", **SIZE}, quiet={FREE: "110x60", **SIZE}, labels=IS_DISK),
    "OttlaDiskFullSoon": Case(
        fires={FREE: "400-1x100", **SIZE}, quiet={FREE: "400-0.1x100", **SIZE}, labels=IS_DISK, at_minutes=90
    ),
    "OttlaStorageErrors": Case(
        fires={f'ottla_broker_storage_errors_total{{{DISK},action="append"}}': "_x25 1x60"},
        quiet={f'ottla_broker_storage_errors_total{{{DISK},action="append"}}': "1x60"},
        labels={**IS_DISK, "action": "append"},
    ),
    "OttlaLogFailed": steady(f"ottla_broker_failed_logs{{{BROKER}}}", 1, labels=IS_BROKER),
    "OttlaStateCopiesBehind": steady(
        f"ottla_broker_cluster_copies_behind{{{BROKER}}}", 1, labels=IS_BROKER, hasty_minutes=9
    ),
    "OttlaLogLacksRecords": steady(f"ottla_broker_lacking_logs{{{BROKER}}}", 1, labels=IS_BROKER, hasty_minutes=4),
    "OttlaLeaderWaits": steady(
        f"ottla_broker_longest_log_searches{{{BROKER}}}", 1, labels=IS_BROKER, hasty_minutes=4
    ),
    "OttlaUncleanableLogs": steady(f"ottla_broker_uncleanable_logs{{{BROKER}}}", 1, labels=IS_BROKER),
    "OttlaIsrFlapping": Case(
        fires={f'ottla_broker_isr_changes_total{{{BROKER},change="shrink"}}': "0+1x60"},
        quiet={
            f'ottla_broker_isr_changes_total{{{BROKER},change="shrink"}}': "0x15 200x60",
            f'ottla_broker_isr_changes_total{{{BROKER},change="expand"}}': "0+1x60",
        },
        labels={"cluster": "a", "instance": "broker-1"},
        at_minutes=40,
    ),
    "OttlaIsrChangesFail": counter(
        f'ottla_broker_isr_changes_total{{{BROKER},change="failed"}}', labels={"cluster": "a", "instance": "broker-1"}
    ),
}

REQUESTS = f'ottla_broker_requests_total{{{BROKER},api="Produce"}}'
ERRORS = f'ottla_broker_request_errors_total{{{BROKER},api="Produce",error="NOT_ENOUGH_REPLICAS"}}'
OF_REQUESTS: Final[Mapping[str, Case]] = {
    "OttlaRequestErrors": Case(
        fires={ERRORS: "0+200x60", REQUESTS: "0+1000x60"},
        quiet={ERRORS: "0+200x60", REQUESTS: "0+10000x60"},
        labels={"cluster": "a", "api": "Produce"},
        hasty_minutes=4,
    ),
    "OttlaProduceSlow": Case(
        fires=histogram("ottla_broker_request_time_seconds", f'{BROKER},api="Produce"', SLOW),
        quiet={
            **histogram("ottla_broker_request_time_seconds", f'{BROKER},api="Produce"', QUICK),
            **histogram("ottla_broker_request_time_seconds", f'{BROKER},api="Fetch"', SLOW),
        },
        labels={"cluster": "a", "instance": "broker-1"},
        hasty_minutes=4,
    ),
}

OF_GROUPS: Final[Mapping[str, Case]] = {
    "OttlaRebalancesTooOften": Case(
        fires={
            f'ottla_coordinator_rebalances_total{{{COORDINATOR},protocol="classic"}}': "0+6x60",
            f'ottla_coordinator_groups{{{COORDINATOR},protocol="classic",state="Stable"}}': "5x60",
        },
        quiet={
            f'ottla_coordinator_rebalances_total{{{COORDINATOR},protocol="classic"}}': "0+6x60",
            f'ottla_coordinator_groups{{{COORDINATOR},protocol="classic",state="Stable"}}': "500x60",
        },
        labels=A,
    ),
    "OttlaGroupFallsBehind": Case(
        fires={GROUP_SECONDS: "0+60x100", GROUP_RECORDS: "0+10x100"},
        quiet={GROUP_SECONDS: "0+60x100", GROUP_RECORDS: "5000-10x100"},
        labels={**A, "group": "readers", "topic": "flights"},
        at_minutes=60,
        hasty_minutes=25,
    ),
    "OttlaGroupStorageTimeouts": counter(
        f"ottla_coordinator_append_timeouts_total{{{COORDINATOR}}}", labels=IS_COORDINATOR
    ),
    "OttlaShardFailures": counter(f"ottla_coordinator_failures_total{{{COORDINATOR}}}", labels=IS_COORDINATOR),
    "OttlaTransactionHangs": steady(
        f"ottla_broker_open_transaction_silent_seconds_max{{{BROKER}}}", 1300, 800, labels=A, hasty_minutes=4
    ),
    "OttlaTransactionsDoNotEnd": Case(
        fires={TRANSACTIONS_ENDING: "3x60", MARKERS_REPEATED: "0+5x60"},
        quiet={TRANSACTIONS_ENDING: "3x60", MARKERS_REPEATED: "5x60"},
        labels=A,
        hasty_minutes=9,
    ),
}

OF_PROCESSES: Final[Mapping[str, Case]] = {
    "OttlaEventLoopDelay": Case(
        fires=histogram("ottla_event_loop_delay_seconds", BROKER, SLOW),
        quiet=histogram("ottla_event_loop_delay_seconds", BROKER, QUICK),
        labels=IS_BROKER,
        hasty_minutes=9,
    ),
    "OttlaProcessRestarts": Case(
        fires={f"process_start_time_seconds{{{BROKER}}}": "100x20 200 300 400x40"},
        quiet={f"process_start_time_seconds{{{BROKER}}}": "100x20 200 300x40"},
        labels=IS_BROKER,
    ),
    "OttlaOpenFilesNearLimit": Case(
        fires={f"process_open_fds{{{BROKER}}}": "900x60", f"process_max_fds{{{BROKER}}}": "1000x60"},
        quiet={f"process_open_fds{{{BROKER}}}": "700x60", f"process_max_fds{{{BROKER}}}": "1000x60"},
        labels=IS_BROKER,
    ),
    "OttlaBackgroundTaskFailed": Case(
        fires={f'ottla_background_task_failures_total{{{BROKER},task="cleaner"}}': "_x20 1x60"},
        quiet={f'ottla_background_task_failures_total{{{BROKER},task="cleaner"}}': "1x60"},
        labels={**IS_BROKER, "task": "cleaner"},
    ),
    "OttlaMetricsIncomplete": steady(
        f'ottla_metrics_series_left_out{{{BROKER},metric="m"}}',
        9,
        labels={**IS_BROKER, "metric": "m"},
        hasty_minutes=14,
    ),
}

OF_ETCD: Final[Mapping[str, Case]] = {
    "OttlaEtcdAway": steady(f"up{{{ETCD}}}", 0, 1, labels=IS_ETCD, hasty_minutes=0),
    "OttlaEtcdNoLeader": steady(f"etcd_server_has_leader{{{ETCD}}}", 0, 1, labels=A),
    "OttlaEtcdQuota": Case(
        fires={
            f"etcd_mvcc_db_total_size_in_bytes{{{ETCD}}}": "900x60",
            f"etcd_server_quota_backend_bytes{{{ETCD}}}": "1000x60",
        },
        quiet={
            f"etcd_mvcc_db_total_size_in_bytes{{{ETCD}}}": "700x60",
            f"etcd_server_quota_backend_bytes{{{ETCD}}}": "1000x60",
        },
        labels=IS_ETCD,
        hasty_minutes=4,
    ),
    "OttlaEtcdSlow": Case(
        fires=histogram("ottla_etcd_time_seconds", f'{BROKER},operation="Txn"', SLOW),
        quiet={
            **histogram("ottla_etcd_time_seconds", f'{BROKER},operation="Txn"', QUICK),
            **histogram("ottla_etcd_time_seconds", f'{BROKER},operation="Watch"', SLOW),
        },
        labels=IS_BROKER,
    ),
}
