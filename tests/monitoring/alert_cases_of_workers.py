"""Alerts of Connect, Spark, mirrors and links: for each, series with which it fires, and some with which not."""

from collections.abc import Mapping
from typing import Final

from tests.monitoring.alert_cases import (
    BROKER,
    COPY,
    FAILED_TASK,
    IS_FLOW,
    IS_WORKER,
    OF_SPARK,
    SPARK_BATCH,
    TASK,
    WORKER,
    Case,
    counter,
    steady,
)  # fmt: skip

IS_CONNECTOR = {"cluster": "a", "connector": "orders"}
LINK = f'{BROKER},link="from-x"'
IS_LINK = {"cluster": "a", "link": "from-x"}

OF_CONNECT: Final[Mapping[str, Case]] = {
    "OttlaConnectorFailed": steady(
        f'ottla_connect_connectors{{{WORKER},state="FAILED"}}',
        1,
        labels={"cluster": "a", "instance": "connect-1"},
        hasty_minutes=1,
    ),
    "OttlaTaskFailed": Case(
        fires={FAILED_TASK: "1x60"},
        quiet={FAILED_TASK.replace("FAILED", "RUNNING"): "1x60"},
        labels=IS_CONNECTOR,
        hasty_minutes=1,
    ),
    "OttlaTaskWaits": steady(
        f"ottla_connect_waiting_time_milliseconds{{{TASK}}}", 400_000, 200_000, labels={**IS_CONNECTOR, "task": "0"}
    ),
    "OttlaDeadLetters": counter(
        f"ottla_connect_deadletterqueue_produce_requests_total{{{TASK}}}", labels=IS_CONNECTOR
    ),
    "OttlaDeadLettersLost": counter(
        f"ottla_connect_deadletterqueue_produce_failures_total{{{TASK}}}", labels=IS_CONNECTOR
    ),
    "OttlaOffsetCommitsFail": counter(
        f"ottla_connect_offset_commit_failure_total{{{TASK}}}", labels=IS_CONNECTOR, hasty_minutes=9
    ),
    "OttlaConnectWorkerOutside": steady(f"ottla_connect_member{{{WORKER}}}", 0, 1, labels=IS_WORKER, hasty_minutes=4),
}

SPARK: Final[Mapping[str, Case]] = {
    "OttlaSparkJobFailed": Case(
        fires={**SPARK_BATCH, FAILED_TASK: "1x60"}, quiet={FAILED_TASK: "1x60"}, labels=IS_CONNECTOR
    ),
    "OttlaSparkFallsBehind": Case(
        fires={OF_SPARK: "20000+100x60"},
        quiet={OF_SPARK: "20000-100x60"},
        labels={**IS_CONNECTOR, "name": "table-lag-records"},
        at_minutes=40,
    ),
}

MIRROR: Final[Mapping[str, Case]] = {
    "OttlaMirrorFlowProblem": steady('ottla_mirror_flow_problem{cluster="a",flow="x->y"}', 1, labels=IS_FLOW),
    "OttlaMirrorBehind": steady(f"ottla_mirror_partition_lag_seconds{{{COPY}}}", 400, 200, labels=IS_FLOW),
    "OttlaMirrorStandsStill": Case(
        fires={
            f"ottla_mirror_partition_lag_records{{{COPY}}}": "5x60",
            f"ottla_mirror_partition_copying{{{COPY}}}": "0x60",
        },
        quiet={
            f"ottla_mirror_partition_lag_records{{{COPY}}}": "5x60",
            f"ottla_mirror_partition_copying{{{COPY}}}": "1x60",
        },
        labels=IS_FLOW,
    ),
    "OttlaMirrorRecordsMissed": counter(
        f"ottla_mirror_partition_records_missed_total{{{COPY}}}", labels={**IS_FLOW, "topic": "t"}
    ),
    "OttlaMirrorRecordsRefused": counter(
        f"ottla_mirror_partition_records_refused_total{{{COPY}}}", labels={**IS_FLOW, "topic": "t"}
    ),
    "OttlaMirrorGroupFailed": steady(
        'ottla_mirror_group_failed{cluster="a",flow="x->y",group="g"}', 1, labels={**IS_FLOW, "group": "g"}
    ),
}

LINKS: Final[Mapping[str, Case]] = {
    "OttlaLinkStandsStill": Case(
        fires={f'ottla_broker_link_partitions{{{LINK},state="SOURCE_TRUNCATED"}}': "1x60"},
        quiet={
            f'ottla_broker_link_partitions{{{LINK},state="RUNNING"}}': "1x60",
            f'ottla_broker_link_partitions{{{LINK},state="PAUSED"}}': "1x60",
        },
        labels={**IS_LINK, "state": "SOURCE_TRUNCATED"},
    ),
    "OttlaLinkBehind": Case(
        fires={f'ottla_broker_link_lag{{{LINK},topic="t",partition="0"}}': "20000+100x60"},
        quiet={f'ottla_broker_link_lag{{{LINK},topic="t",partition="0"}}': "20000-100x60"},
        labels=IS_LINK,
        at_minutes=40,
    ),
    "OttlaLinkProblems": steady(
        f'ottla_broker_link_problems{{{LINK},kind="TOPIC_REFUSED"}}', 1, labels={**IS_LINK, "kind": "TOPIC_REFUSED"}
    ),
    "OttlaLinkNotInStep": Case(
        fires={f'ottla_broker_link_in_step_timestamp_seconds{{{LINK},what="topics"}}': "0x60"},
        quiet={f'ottla_broker_link_in_step_timestamp_seconds{{{LINK},what="topics"}}': "0+60x60"},
        labels={**IS_LINK, "what": "topics"},
        at_minutes=50,
    ),
    "OttlaLinkRecordsMissed": Case(
        fires={f'ottla_broker_link_records_missed_total{{{LINK},topic="t",partition="0"}}': "_x20 5x60"},
        quiet={f'ottla_broker_link_records_missed_total{{{LINK},topic="t",partition="0"}}': "5x60"},
        labels={**IS_LINK, "topic": "t"},
    ),
}
