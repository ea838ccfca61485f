"""`ottla-mirror --config mm2.properties` between two local clusters: alone, and three workers of which some die.

The clusters are shared by the tests, which have topics, groups and aliases of their own.
"""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from ottla_operations.workers.mirror_client import flow_path
from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.mirror.mirror_worker import MirrorWorkerProcess, mirror_command

pytestmark = pytest.mark.slow

COPY_DEADLINE_S = 60.0
NOT_THERE = "127.0.0.1:1"
STARTED_S = time.time()
LABELS = ("target", "flow", "group", "topic", "partition")


class Side:
    """A cluster and what tests do with it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()

    def write(self, topic: str, values: range) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "compression.type": "lz4"})
        for value in values:
            producer.produce(topic, key=str(value), value=str(value))
        assert producer.flush(30) == 0

    def topics(self) -> dict[str, int]:
        return {name: len(each.partitions) for name, each in self.admin.list_topics(timeout=10).topics.items()}

    def ends(self, topic: str) -> list[int]:
        """The ends of all partitions; none while one of them has no leader yet."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends"})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
                for number in range(self.topics().get(topic, 0))
            ]
        except KafkaException:
            return []
        finally:
            consumer.close()

    def read(self, topic: str) -> dict[int, list[str]]:
        """All values of a topic by partition."""
        settings = {"group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings})
        partitions = self.topics()[topic]
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        values: dict[int, list[str]] = {number: [] for number in range(partitions)}
        ended = 0
        while ended < partitions:
            message = consumer.poll(10.0)
            assert message is not None, f"{topic} cannot be read"
            if message.error() is not None:
                ended += 1
            else:
                values[message.partition()].append(message.value().decode())
        consumer.close()
        return values

    def commit(self, group: str, topic: str, offset: int) -> None:
        commit_offsets(self.bootstrap, group, [TopicPartition(topic, 0, offset)])

    def committed(self, group: str, topic: str) -> int:
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        found = self.admin.list_consumer_group_offsets([request])[group].result()
        return int(found.topic_partitions[0].offset)

    def setting(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        return str(self.admin.describe_configs([resource])[resource].result()[name].value)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with OttlaCluster(tmp_path_factory.mktemp("source") / "cluster") as cluster:
        yield Side(cluster.bootstrap)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with OttlaCluster(tmp_path_factory.mktemp("target") / "cluster") as cluster:
        yield Side(cluster.bootstrap)


def properties(source: Side, target: Side, alias: str, topics: str, **settings: str) -> dict[str, str]:
    """A `mm2.properties` in which the source has an alias of its own, and so its copies names of their own."""
    return {
        "clusters": f"{alias}, T",
        f"{alias}.bootstrap.servers": source.bootstrap,
        "T.bootstrap.servers": target.bootstrap,
        f"{alias}->T.enabled": "true",
        f"{alias}->T.topics": topics,
        "group.id": f"mirror-{alias}",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


def is_copied(worker: MirrorWorkerProcess, flow: str) -> bool:
    lag = worker.flow(flow, "lag")
    return lag["state"] == "RUNNING" and lag["lag_records"] == 0 and lag["partitions_unknown"] == 0


def metrics_of(port: int) -> dict[tuple[str, ...], float]:
    """What a worker shows, by the metric's name and the values of its labels."""
    page = httpx.get(f"http://{LOOPBACK}:{port}/metrics", trust_env=False).text
    return {
        (sample.name, *(sample.labels[each] for each in LABELS if each in sample.labels)): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_a_worker_mirrors_topics_settings_records_and_groups(source: Side, target: Side, tmp_path: Path) -> None:
    source.create("first", 3, cleanup_policy="compact")
    source.create("first-empty")
    source.create("second")
    source.write("first", range(1000))
    (metrics_port,) = free_ports(1)
    settings = properties(
        source, target, "A", "first.*",
        sync_group_offsets_enabled="true", metrics_listener=f"{LOOPBACK}:{metrics_port}",
    )  # fmt: skip
    with MirrorWorkerProcess(tmp_path, settings) as worker:
        eventually(lambda: target.topics().get("A.first") == 3, "topics are there", within_s=COPY_DEADLINE_S)
        eventually(
            lambda: target.ends("A.first") == source.ends("first"), "records are there", within_s=COPY_DEADLINE_S
        )
        assert target.read("A.first") == source.read("first")
        assert target.setting("A.first", "cleanup.policy") == "compact"
        assert "A.second" not in target.topics()
        eventually(lambda: is_copied(worker, "A->T"), "the worker says so", within_s=COPY_DEADLINE_S)
        lag = worker.flow("A->T", "lag")
        assert {each["source_start"] for each in lag["partitions"]} == {0}
        assert lag["source_records"] == sum(each["source_end"] for each in lag["partitions"])

        # A setting changes, a topic gets partitions, another topic comes.
        resource = ConfigResource(ConfigResource.Type.TOPIC, "first-empty", set_config={"retention.ms": "7777777"})
        source.admin.alter_configs([resource])[resource].result()
        source.admin.create_partitions([NewPartitions("first-empty", 2)])["first-empty"].result()
        source.create("first-late")
        source.write("first-late", range(100))
        eventually(lambda: target.topics().get("A.first-empty") == 2, "partitions follow", within_s=COPY_DEADLINE_S)
        eventually(
            lambda: target.setting("A.first-empty", "retention.ms") == "7777777", "settings follow",
            within_s=COPY_DEADLINE_S,
        )  # fmt: skip
        eventually(lambda: target.ends("A.first-late") == [100], "a new topic follows", within_s=COPY_DEADLINE_S)

        # A group of the source goes on at the target, and is translated at once where somebody asks for it.
        source.commit("billing", "first-late", 42)
        eventually(
            lambda: target.committed("billing", "A.first-late") == 42, "the group follows", within_s=COPY_DEADLINE_S
        )
        source.commit("billing", "first-late", 57)
        answer = worker.ask("POST", flow_path("A->T", "groups", "billing", "sync"))
        assert answer.status_code == 200, answer.text
        assert answer.json()["written"]
        assert target.committed("billing", "A.first-late") == 57
        assert "billing" in [each["group"] for each in worker.flow("A->T", "groups")]

        shown = metrics_of(metrics_port)
        assert shown["ottla_mirror_member", "T"] == 1
        assert shown["ottla_mirror_flow_problem", "A->T"] == 0
        assert shown["ottla_mirror_group_failed", "A->T", "billing"] == 0
        assert shown["ottla_mirror_group_checkpoint_timestamp_seconds", "A->T", "billing"] > STARTED_S
        copied = {
            name: shown["ottla_mirror_partition_records_total", "A->T", name, "0"] for name in ("first", "first-late")
        }
        assert copied == {"first": source.ends("first")[0], "first-late": 100}
        assert shown["ottla_mirror_partition_lag_records", "A->T", "first-late", "0"] == 0
    assert "heartbeats" in target.topics()
    assert "A.checkpoints.internal" in target.topics()


def test_an_added_partition_is_copied_from_its_first_record_on_where_the_copy_begins_at_the_end(
    source: Side, target: Side, tmp_path: Path
) -> None:
    source.create("grown")
    source.write("grown", range(10))
    settings = properties(source, target, "G", "grown", consumer_auto_offset_reset="latest")
    with MirrorWorkerProcess(tmp_path / "before", settings) as worker:
        eventually(lambda: is_copied(worker, "G->T"), "it is at the end", within_s=COPY_DEADLINE_S)
        assert target.ends("G.grown") == [0]
    source.admin.create_partitions([NewPartitions("grown", 2)])["grown"].result()
    eventually(lambda: len(source.ends("grown")) == 2, "both are led")
    source.write("grown", range(10, 50))
    with MirrorWorkerProcess(tmp_path / "after", settings):
        records = source.read("grown")
        wanted = {0: records[0][10:], 1: records[1]}
        assert all(wanted.values())
        eventually(
            lambda: target.ends("G.grown") == [len(each) for each in wanted.values()], "all is there",
            within_s=COPY_DEADLINE_S,
        )  # fmt: skip
        assert target.read("G.grown") == wanted


def test_a_flow_is_paused_throttled_and_goes_on(source: Side, target: Side, tmp_path: Path) -> None:
    source.create("steered")
    with MirrorWorkerProcess(tmp_path, properties(source, target, "P", "steered")) as worker:
        eventually(lambda: is_copied(worker, "P->T"), "the flow runs", within_s=COPY_DEADLINE_S)
        assert worker.ask("PUT", flow_path("P->T", "pause")).status_code == 202
        eventually(lambda: worker.flow("P->T", "status")["state"] == "PAUSED", "it is paused")
        source.write("steered", range(50))
        assert worker.ask("PUT", flow_path("P->T", "throttle"), {"bytes_per_second": 1_000_000}).status_code == 202
        eventually(lambda: worker.flow("P->T")["throttle_bytes_per_second"] == 1_000_000, "the throttle is taken up")
        assert target.ends("P.steered") == [0]
        assert worker.ask("PUT", flow_path("P->T", "resume")).status_code == 202
        eventually(lambda: target.ends("P.steered") == [50], "it goes on", within_s=COPY_DEADLINE_S)


def test_a_flow_is_created_and_deleted_by_rest(source: Side, target: Side, tmp_path: Path) -> None:
    source.create("made")
    source.write("made", range(10))
    settings = {"clusters": "T", "T.bootstrap.servers": target.bootstrap, "group.id": "mirror-made"}
    flow = {
        "source": "M",
        "target": "T",
        "source_settings": {"bootstrap.servers": source.bootstrap},
        "settings": {"topics": "made"},
    }
    with MirrorWorkerProcess(tmp_path, settings) as worker:
        for wrong, status, told in (
            ({**flow, "target": "X"}, 400, "the workers know no cluster 'X'"),
            ({**flow, "settings": {"tpics": "made"}}, 400, "did you mean topics?"),
            ({**flow, "source_settings": {"bootstrap.servers": NOT_THERE}}, 503, NOT_THERE),
            ({**flow, "source_settings": {"bootstrap.servers": target.bootstrap}}, 400, "are the same cluster"),
        ):
            refused = worker.ask("POST", "/flows", wrong)
            assert (refused.status_code, told in refused.json()["message"]) == (status, True), refused.text
        assert worker.get("/flows") == []
        answer = worker.ask("POST", "/flows", flow)
        assert (answer.status_code, answer.json()["name"]) == (201, "M->T"), answer.text
        assert worker.ask("POST", "/flows", flow).status_code == 409
        eventually(lambda: target.ends("M.made") == [10], "the flow copies", within_s=COPY_DEADLINE_S)
        worker.stop()
        worker.start()
        source.write("made", range(5))
        eventually(lambda: target.ends("M.made") == [15], "it goes on after a restart", within_s=COPY_DEADLINE_S)
        assert worker.ask("DELETE", flow_path("M->T")).status_code == 204
        assert worker.ask("GET", flow_path("M->T")).status_code == 404
        assert worker.get("/flows") == []


def test_three_workers_share_partitions_and_what_a_dead_one_had_goes_on(
    source: Side, target: Side, tmp_path: Path
) -> None:
    source.create("shared", 6)
    without_heartbeats = {"emit_heartbeats_enabled": "false", "heartbeats_replication_enabled": "false"}
    settings = properties(source, target, "S", "shared", **without_heartbeats)
    with ExitStack() as stack:
        workers = [MirrorWorkerProcess(tmp_path, settings, name=f"mirror-{number}") for number in range(3)]
        for worker in workers:
            stack.enter_context(worker)
        source.write("shared", range(600))

        def shares(asked: MirrorWorkerProcess) -> list[int]:
            status = asked.flow("S->T", "status")
            copying = [each["worker_id"] for each in status["partitions"] if each["state"] == "COPYING"]
            return sorted(Counter(copying).values())

        eventually(lambda: shares(workers[0]) == [2, 2, 2], "all have a share", within_s=COPY_DEADLINE_S)
        assert shares(workers[2]) == [2, 2, 2]
        # Whoever is asked, the leader answers what only it knows.
        assert all([each["topic"] for each in worker.flow("S->T", "topics")] == ["shared"] for worker in workers)
        (leader,) = (each for each in workers if each.url in {share["worker_id"] for share in
                     workers[0].flow("S->T", "status")["workers"] if share["leads"]})  # fmt: skip
        leader.kill()
        source.write("shared", range(600, 1200))
        left = [each for each in workers if each is not leader]
        eventually(lambda: shares(left[0]) == [3, 3], "the others take over", within_s=COPY_DEADLINE_S)
        left[1].kill()
        source.write("shared", range(1200, 1800))
        eventually(lambda: shares(left[0]) == [6], "the last one takes over", within_s=COPY_DEADLINE_S)
        eventually(
            lambda: target.ends("S.shared") == source.ends("shared"), "all is copied", within_s=COPY_DEADLINE_S
        )
        # Every record once, in order, although owners were killed while they copied.
        assert target.read("S.shared") == source.read("shared")


def test_a_topic_that_exists_at_the_target_is_refused_until_it_is_adopted(
    source: Side, target: Side, tmp_path: Path
) -> None:
    source.create("taken")
    source.create("free")
    source.write("taken", range(5))
    target.create("E.taken")
    target.write("E.taken", range(3))
    settings = properties(source, target, "E", "taken|free")
    with MirrorWorkerProcess(tmp_path, settings) as worker:
        eventually(lambda: "E.free" in target.topics(), "the other topic is copied", within_s=COPY_DEADLINE_S)
        refused = "E.taken exists at the target, and no mirror has made it"
        eventually(lambda: refused in worker.flow("E->T", "status")["reason"], "it is told", within_s=COPY_DEADLINE_S)
        assert worker.flow("E->T", "status")["state"] == "DEGRADED"
        assert target.ends("E.taken") == [3]
    with MirrorWorkerProcess(tmp_path, {**settings, "existing.topics": "adopt"}, name="adopting"):
        eventually(lambda: target.ends("E.taken") == [8], "it is adopted", within_s=COPY_DEADLINE_S)
        assert target.read("E.taken")[0] == ["0", "1", "2", "0", "1", "2", "3", "4"]


def test_another_cluster_at_the_sources_address_stops_the_flow_and_costs_no_copy(
    target: Side, tmp_path: Path
) -> None:
    with OttlaCluster(tmp_path / "first") as first:
        source = Side(first.bootstrap)
        source.create("moved")
        source.create("only-there")
        source.write("moved", range(20))
        settings = properties(source, target, "X", "moved|only-there", sync_topic_deletions_enabled="true")
        worker = MirrorWorkerProcess(tmp_path, settings)
        worker.start()
        try:
            eventually(lambda: target.ends("X.moved") == [20], "it is copied", within_s=COPY_DEADLINE_S)
            eventually(lambda: "X.only-there" in target.topics(), "so is the other", within_s=COPY_DEADLINE_S)
            first.stop()
            same_address = ("--base-port", str(first.base_port))
            with OttlaCluster(tmp_path / "second", arguments=same_address) as second:
                assert second.bootstrap == source.bootstrap
                stranger = Side(second.bootstrap)
                stranger.create("moved")
                stranger.write("moved", range(500, 530))
                eventually(
                    lambda: "answers there, and not" in worker.flow("X->T", "status")["reason"],
                    "the flow says why it has stopped",
                    within_s=COPY_DEADLINE_S,
                )
                assert target.read("X.moved")[0] == [str(number) for number in range(20)]
                assert "X.only-there" in target.topics()
        finally:
            worker.stop()


def refusal(directory: Path, settings: dict[str, str]) -> tuple[int, str]:
    """How a worker ends that cannot begin: its exit code and what it says."""
    path = directory / "mm2.properties"
    path.write_text(
        "".join(f"{key} = {value}\n" for key, value in {"listeners": "http://127.0.0.1:0", **settings}.items())
    )
    done = subprocess.run(
        [mirror_command(), "--config", str(path)], capture_output=True, text=True, timeout=90, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stderr


def test_a_mistake_ends_the_worker_with_its_reason_before_anything_is_changed(
    source: Side, target: Side, tmp_path: Path
) -> None:
    before = target.topics()
    good = properties(source, target, "W", "w")
    code, told = refusal(tmp_path, {**good, "W->T.tpics": "w"})
    assert (code, "W->T.tpics: unknown setting; did you mean topics?" in told) == (2, True), told
    code, told = refusal(tmp_path, {**good, "W.bootstrap.servers": NOT_THERE})
    assert (code, f"W: {NOT_THERE}" in told) == (1, True), told
    code, told = refusal(tmp_path, {**good, "W.bootstrap.servers": target.bootstrap})
    assert (code, "W->T: source and target are the same cluster" in told) == (2, True), told
    secured = {"W.security.protocol": "SASL_PLAINTEXT", "W.sasl.mechanism": "PLAIN", "W.sasl.username": "u",
               "W.sasl.password": "p"}  # fmt: skip
    code, told = refusal(tmp_path, {**good, **secured})
    assert (code, "W: " in told) == (2, True), told
    assert {name for name in target.topics() if name.startswith(("W.", "mirror-W"))} == set()
    assert set(target.topics()) == set(before)
