"""Kafka's own commands work against the broker: topics, configs, offsets, versions, producing, consuming."""

import json
import re
from pathlib import Path

import pytest

from ottla_core.cluster.state.features import NEWEST_LEVEL
from tests.compat.java import kafka_tools
from tests.compat.java.kafka_tools import ToolFailed, run_tool
from tests.conftest import TopicFactory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

RECORDS = 20_000


def test_producer_performance_and_console_consumer_agree(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    output = run_tool(
        kafka_tools.PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", str(RECORDS), "--record-size", "1000", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "compression.type=lz4"),
    )
    assert re.search(rf"{RECORDS} records sent, .* records/sec", output), output
    assert offsets_of(bootstrap, topic) == {0: RECORDS}
    read = consume(bootstrap, topic, offset="earliest", count=RECORDS)
    assert len([line for line in read.splitlines() if len(line) == 1000]) == RECORDS


def test_transactions_of_javas_producer_are_committed_listed_and_described(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    output = run_tool(
        kafka_tools.PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", "200", "--record-size", "10", "--throughput", "200"),
        *("--producer-props", f"bootstrap.servers={bootstrap}"),
        *("--transactional-id", "performance", "--transaction-duration-ms", "100"),
    )
    assert "200 records sent" in output, output
    more = ("--isolation-level", "read_committed")
    read = consume(bootstrap, topic, offset="earliest", count=200, more=more)
    assert len([line for line in read.splitlines() if len(line) == 10]) == 200

    transactions = (kafka_tools.TRANSACTIONS, "--bootstrap-server", bootstrap)
    assert re.search(r"^performance\s+\d+\s+\d+\s+CompleteCommit", run_tool(*transactions, "list"), re.MULTILINE)
    described = run_tool(*transactions, "describe", "--transactional-id", "performance")
    assert re.search(r"performance\s+\d+\s+\d+\s+CompleteCommit", described), described
    producers = run_tool(*transactions, "describe-producers", "--topic", topic, "--partition", "0")
    assert re.search(r"^\d+\s+\d+\s+\d+\s+-?\d+\s+\d+\s+None", producers, re.MULTILINE), producers
    hanging = run_tool(*transactions, "find-hanging", "--broker-id", "1")
    assert not re.search(r"^\S+\s+\d+\s+\d+", hanging, re.MULTILINE), hanging


def test_what_the_console_producer_sent_the_console_consumer_shows(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    lines = [f"key-{number}:value {number}" for number in range(20)]
    run_tool(
        kafka_tools.CONSOLE_PRODUCER,
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--property", "parse.key=true", "--property", "key.separator=:"),
        standard_input="\n".join(lines) + "\n",
    )
    read = consume(bootstrap, topic, offset="12", count=8, more=("--property", "print.key=true"))
    shown = [line.replace("\t", ":") for line in read.splitlines() if line.startswith("key-")]
    assert shown == lines[12:]


def test_topics_are_created_described_grown_listed_and_deleted(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic() + "-by-command"
    run_tool(
        kafka_tools.TOPICS,
        *("--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "2"),
        *("--config", "retention.ms=3600000"),
    )
    described = run_tool(kafka_tools.TOPICS, "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 1\s+Configs: .*retention.ms=3600000", described)
    run_tool(kafka_tools.TOPICS, "--bootstrap-server", bootstrap, "--alter", "--topic", topic, "--partitions", "4")
    described = run_tool(kafka_tools.TOPICS, "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    assert len(re.findall(r"Partition: \d", described)) == 4
    run_tool(kafka_tools.TOPICS, "--bootstrap-server", bootstrap, "--delete", "--topic", topic)
    assert topic not in run_tool(kafka_tools.TOPICS, "--bootstrap-server", bootstrap, "--list").split()


def test_a_refused_topic_is_reported_in_kafkas_words(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with pytest.raises(ToolFailed, match="TopicExistsException"):
        run_tool(kafka_tools.TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic)


def test_configs_are_altered_and_described(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    entity = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
    run_tool(kafka_tools.CONFIGS, *entity, "--alter", "--add-config", "segment.ms=60000,max.message.bytes=2000000")
    run_tool(kafka_tools.CONFIGS, *entity, "--alter", "--delete-config", "segment.ms")
    described = run_tool(kafka_tools.CONFIGS, *entity, "--describe")
    assert "max.message.bytes=2000000" in described
    assert "segment.ms=" not in described
    assert "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000" in described


@pytest.mark.parametrize(
    ("kind", "name", "setting", "value", "default"),
    [
        ("groups", "a-group-with-settings", "consumer.heartbeat.interval.ms", "900", ""),
        ("brokers", "1", "log.cleaner.threads", "2", ""),
        ("brokers", "1", "num.io.threads", "9", ""),
        ("broker-loggers", "1", "root", "WARN", "INFO"),
    ],
)
def test_configs_of_groups_brokers_and_loggers_are_altered_and_described(
    bootstrap: str, kind: str, name: str, setting: str, value: str, default: str
) -> None:
    entity = ("--bootstrap-server", bootstrap, "--entity-type", kind, "--entity-name", name)
    run_tool(kafka_tools.CONFIGS, *entity, "--alter", "--add-config", f"{setting}={value}")
    try:
        assert f"{setting}={value}" in run_tool(kafka_tools.CONFIGS, *entity, "--describe")
    finally:
        back = ("--add-config", f"{setting}={default}") if default else ("--delete-config", setting)
        run_tool(kafka_tools.CONFIGS, *entity, "--alter", *back)
    assert f"{setting}={value}" not in run_tool(kafka_tools.CONFIGS, *entity, "--describe")


def test_access_control_lists_are_said_to_be_disabled(bootstrap: str) -> None:
    output = kafka_tools.run_tool_anyhow(kafka_tools.ACLS, "--bootstrap-server", bootstrap, "--list")
    assert "SecurityDisabledException: No Authorizer is configured" in output, output


def test_offsets_are_told_by_time(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=2)
    assert offsets_of(bootstrap, topic) == {0: 0, 1: 0}
    assert offsets_of(bootstrap, topic, "earliest") == {0: 0, 1: 0}
    assert offsets_of(bootstrap, topic, "max-timestamp").keys() <= {0, 1}


def test_records_are_deleted(bootstrap: str, new_topic: TopicFactory, tmp_path: Path) -> None:
    topic = new_topic()
    run_tool(
        kafka_tools.CONSOLE_PRODUCER,
        *("--bootstrap-server", bootstrap, "--topic", topic),
        standard_input="one\ntwo\nthree\n",
    )
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    run_tool(
        kafka_tools.DELETE_RECORDS, "--bootstrap-server", bootstrap, "--offset-json-file", str(tmp_path / "plan.json")
    )
    assert offsets_of(bootstrap, topic, "earliest") == {0: 2}


def test_log_directories_are_described(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=2)
    output = run_tool(kafka_tools.LOG_DIRS, "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)
    found = json.loads(output.splitlines()[-1])
    partitions = [held["partition"] for held in found["brokers"][0]["logDirs"][0]["partitions"]]
    assert sorted(partitions) == [f"{topic}-0", f"{topic}-1"]


def test_api_versions_are_listed(bootstrap: str) -> None:
    output = run_tool(kafka_tools.BROKER_API_VERSIONS, "--bootstrap-server", bootstrap)
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", output)
    assert re.search(r"Fetch\(1\): 4 to \d+ \[usable: \d+\]", output)


def consume(bootstrap: str, topic: str, *, offset: str, count: int, more: tuple[str, ...] = ()) -> str:
    """What the console consumer shows of partition 0."""
    return run_tool(
        kafka_tools.CONSOLE_CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", offset),
        *("--max-messages", str(count), "--timeout-ms", "30000", *more),
    )


def offsets_of(bootstrap: str, topic: str, time: str = "latest") -> dict[int, int]:
    """What GetOffsetShell tells of each partition."""
    output = run_tool(
        kafka_tools.GET_OFFSETS, "--bootstrap-server", bootstrap, "--topic-partitions", topic, "--time", time
    )
    found = re.findall(rf"^{re.escape(topic)}:(\d+):(-?\d+)$", output, re.MULTILINE)
    return {int(partition): int(offset) for partition, offset in found}


def test_levels_of_features_are_described_taken_back_and_raised(bootstrap: str) -> None:
    def features(*arguments: str) -> str:
        return run_tool(kafka_tools.FEATURES, "--bootstrap-server", bootstrap, *arguments)

    assert re.search(rf"Feature: ottla\.version.*FinalizedVersionLevel: {NEWEST_LEVEL}", features("describe"))
    assert re.search(r"Feature: transaction\.version.*FinalizedVersionLevel: 2", features("describe"))
    down = ("downgrade", "--feature", "transaction.version=0")
    features(*down, "--dry-run")
    features(*down)
    try:
        assert re.search(r"Feature: transaction\.version.*FinalizedVersionLevel: 0", features("describe"))
        refused = kafka_tools.run_tool_anyhow(
            kafka_tools.FEATURES, "--bootstrap-server", bootstrap, "upgrade", "--feature",
            f"ottla.version={NEWEST_LEVEL + 1}",
        )  # fmt: skip
        assert f"levels 1 to {NEWEST_LEVEL} of ottla.version" in refused
    finally:
        features("upgrade", "--feature", "transaction.version=2")
    assert re.search(r"Feature: transaction\.version.*FinalizedVersionLevel: 2", features("describe"))
