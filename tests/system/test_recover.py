"""etcd's data is gone for good, at a random moment under load: `ottla cluster recover` loses nothing.

Every process is killed with kill -9. Before that brokers may have been stopped for a while (so that in-sync sets
have shrunk, down to one replica), or killed and started again; etcd may have been lost a while before the brokers.
`OTTLA_TEST_RECOVERIES` says how often, `OTTLA_TEST_SEED` repeats what was drawn.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.acknowledged_load import AcknowledgedLoad, read_everything
from tests.support.clients.delivery_check import DeliveryLog, assert_delivered, delivery_problems
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.clusters.ottla_cluster import LauncherFailed, OttlaCluster
from tests.support.clusters.recovered_cluster import (
    PARTITIONS,
    TIMEOUT_S,
    CommittingGroups,
    broker_directory,
    create_topic,
    end_offset,
    in_sync,
    lose_etcd,
    recover,
    run_ottla,
    settings,
    topic_ids,
    wait_until_in_sync,
    write_one,
)
from tests.support.eventually import NotInTime, eventually

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("OTTLA_TEST_RECOVERIES", "1"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", str(random.randrange(1_000_000))))
SAFE, DARING = "safe", "daring"
"""A topic with min.insync.replicas 2, and one with 1: there a leader acknowledges alone."""
OF_NEW_PRODUCERS = "new-producers"
TOPICS = {
    SAFE: {"min.insync.replicas": "2", "retention.ms": "-1", "segment.bytes": "1048576"},
    DARING: {"min.insync.replicas": "1", "retention.ms": "-1", "cleanup.policy": "delete"},
}
GROUPS = ("readers", "others", "more")
SETTINGS = ("--set", "broker:offsets.topic.num.partitions=3", "--set", "broker:replica.lag.time.max.ms=3000")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OttlaCluster]:
    cluster = OttlaCluster(tmp_path / "cluster", brokers=3, controllers=2, coordinators=2, arguments=SETTINGS)
    with cluster:
        for name, configs in TOPICS.items():
            create_topic(cluster.bootstrap, name, configs)
        create_topic(cluster.bootstrap, OF_NEW_PRODUCERS, {"retention.ms": "-1"})
        write_one(cluster.bootstrap, OF_NEW_PRODUCERS)
        yield cluster


class Load:
    """Producers of both topics, and groups; what they were told until the cluster died."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        self.records = {
            name: stack.enter_context(AcknowledgedLoad(bootstrap, name, partitions=PARTITIONS, producers=2))
            for name in TOPICS
        }
        self.groups = stack.enter_context(CommittingGroups(bootstrap, SAFE, GROUPS))

    def run(self, seconds: float) -> None:
        """Sends steadily for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._send()
            time.sleep(0.02)  # paces the load

    def run_until_acknowledged(self) -> None:
        """Sends steadily until records of each topic are acknowledged, and a commit of each group is granted."""
        eventually(self._is_acknowledged, "records and commits are acknowledged", within_s=TIMEOUT_S)

    def _is_acknowledged(self) -> bool:
        self._send()
        written = all(load.log.acknowledged_count() for load in self.records.values())
        return written and all(self.groups.granted.values())

    def _send(self) -> None:
        for load in self.records.values():
            load.send(2)
        for load in self.records.values():
            load.serve_acknowledgements()

    def check(self, bootstrap: str) -> None:
        """Sees that everything is there that was acknowledged and committed until now."""
        for name, load in self.records.items():
            acknowledged = load.log.snapshot()  # before anything is read
            assert acknowledged.acknowledged_count() > 0

            def is_there(name: str = name, acknowledged: DeliveryLog = acknowledged) -> bool:
                # Consumers see what is committed, which a leader learns when its followers have fetched.
                return not delivery_problems(acknowledged, read_everything(bootstrap, name, partitions=PARTITIONS))

            with contextlib.suppress(NotInTime):
                eventually(is_there, "everything is there that was acknowledged", within_s=TIMEOUT_S)
            assert_delivered(acknowledged, read_everything(bootstrap, name, partitions=PARTITIONS))
        self.groups.check(dict(self.groups.granted))


def disturb_and_kill(cluster: OttlaCluster, load: Load, chance: random.Random) -> None:
    """Lets brokers fail, loses etcd, and kills everything, at moments that are drawn."""
    load.run(chance.uniform(0.5, 3))
    brokers = [service.pid for service in cluster.recorded() if service.role == "broker"]
    stopped = chance.sample(brokers, chance.choice((0, 0, 1, 2)))
    for pid in stopped:
        os.kill(pid, chance.choice((signal.SIGSTOP, signal.SIGKILL)))
    load.run(chance.uniform(0, 12))
    if chance.random() < 0.5:  # the launcher starts another etcd, which is empty; or everything dies before that
        (etcd,) = [service.pid for service in cluster.recorded() if service.role == "etcd"]
        os.kill(etcd, signal.SIGKILL)
        shutil.rmtree(cluster.directory / "etcd", ignore_errors=True)
        load.run(chance.uniform(0, 3))
    cluster.kill()
    shutil.rmtree(cluster.directory / "etcd", ignore_errors=True)


def test_nothing_is_lost_when_etcd_is(cluster: OttlaCluster) -> None:
    print(f"OTTLA_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    ids = topic_ids(cluster.bootstrap, list(TOPICS))
    with ExitStack() as stack:
        load = Load(cluster.bootstrap, stack)  # the same producers and consumers over all rounds
        load.run_until_acknowledged()
        for number in range(ROUNDS):
            disturb_and_kill(cluster, load, chance)

            plan = recover(cluster)
            assert not any(each["may_lack_records"] for each in plan["partitions"]), plan
            assert not plan["rebuilt_topics"]
            cluster.start()

            load.check(cluster.bootstrap)
            assert topic_ids(cluster.bootstrap, list(TOPICS)) == ids
            for name, configs in TOPICS.items():
                assert settings(cluster.bootstrap, name) == configs
                load.records[name].finish()
            load.check(cluster.bootstrap)
            check_usable(cluster, f"new-{number}")
    check_rolling_restart(cluster)


def check_usable(cluster: OttlaCluster, new_topic: str) -> None:
    """Sees that topics can be created, and that new producers are not taken for former ones."""
    create_topic(cluster.bootstrap, new_topic, {})
    assert write_one(cluster.bootstrap, new_topic) == 0
    for _ in range(3):
        before = end_offset(cluster.bootstrap, OF_NEW_PRODUCERS)
        offset = write_one(cluster.bootstrap, OF_NEW_PRODUCERS)
        assert offset == before, "the record is not taken for one that is stored already"
    wait_until_in_sync(cluster.bootstrap, [*TOPICS, new_topic])


def check_rolling_restart(cluster: OttlaCluster) -> None:
    """Restarts each broker in turn: each comes back into every in-sync set, and the others never leave it."""
    for number in range(1, 4):
        (broker,) = [each for each in cluster.refresh() if each.role == "broker" and each.id == number]
        os.kill(broker.pid, signal.SIGTERM)
        eventually(lambda pid=broker.pid: not Path(f"/proc/{pid}").exists(), "the broker has ended")
        left = {each for name in TOPICS for isr in in_sync(cluster.bootstrap, name).values() for each in isr}
        assert left >= {1, 2, 3} - {number}
        wait_until_in_sync(cluster.bootstrap, list(TOPICS))


def test_a_cluster_without_copies_is_rebuilt_from_its_logs(cluster: OttlaCluster) -> None:
    with ExitStack() as stack:
        load = Load(cluster.bootstrap, stack)
        load.run_until_acknowledged()
        load.run(2)
        ids = topic_ids(cluster.bootstrap, list(TOPICS))
        cluster.kill()
        lose_etcd(cluster)
        for number in (1, 2, 3):
            (broker_directory(cluster, number) / "cluster-state").unlink()

        plan = recover(cluster)

        assert plan["rebuilt_topics"] == ["__consumer_offsets", DARING, OF_NEW_PRODUCERS, SAFE]
        cluster.start()
        load.check(cluster.bootstrap)
        assert topic_ids(cluster.bootstrap, list(TOPICS)) == ids
        assert settings(cluster.bootstrap, SAFE)["retention.ms"] == "-1", "nothing is deleted unasked"
        assert settings(cluster.bootstrap, "__consumer_offsets")["cleanup.policy"] == "compact"
        for records in load.records.values():
            records.finish()
        load.check(cluster.bootstrap)
    check_usable(cluster, "new")


def test_a_cluster_goes_on_without_a_broker_that_is_lost_for_good(cluster: OttlaCluster) -> None:
    with ExitStack() as stack:
        load = Load(cluster.bootstrap, stack)
        load.run_until_acknowledged()
        load.run(2)
        wait_until_in_sync(cluster.bootstrap, list(TOPICS))
        cluster.kill()
        lose_etcd(cluster)
        shutil.rmtree(broker_directory(cluster, 1))

        refused = run_ottla("cluster", "recover", "local", "--dir", str(cluster.directory), "--yes", succeeds=False)
        assert refused.returncode == 1
        assert "--without-broker 1" in refused.stderr
        plan = recover(cluster, "--without-broker", "1")

        assert {each["verdict"] for each in plan["partitions"]} == {"longest log"}
        assert all(each["may_lack_records"] for each in plan["partitions"])
        cluster.start()  # with an empty broker 1, which copies everything
        load.check(cluster.bootstrap)
        for records in load.records.values():
            records.finish()
        load.check(cluster.bootstrap)
    check_usable(cluster, "new")


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from ottla.main import main
from ottla.recover import running

write_state = running.write_state

async def killed(client, plan, _progress):
    await write_state(client, plan, lambda done, _total: done < 300 or os.kill(os.getpid(), signal.SIGKILL))

running.write_state = killed
sys.exit(main())
"""


def test_a_recovery_that_was_cut_short_is_run_again(cluster: OttlaCluster) -> None:
    create_topic(cluster.bootstrap, "wide", {}, partitions=500)  # so that there is a middle
    with ExitStack() as stack:
        load = Load(cluster.bootstrap, stack)
        load.run_until_acknowledged()
        load.run(1)
        cluster.kill()
        lose_etcd(cluster)
        arguments = ["cluster", "recover", "local", "--dir", str(cluster.directory), "--yes"]
        cut_short = subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE, *arguments], check=False)
        assert cut_short.returncode == -signal.SIGKILL

        with pytest.raises(LauncherFailed, match="ottla cluster recover"):
            cluster.start()
        cluster.stop()
        recover(cluster)
        cluster.start()

        load.check(cluster.bootstrap)
        for records in load.records.values():
            records.finish()
        load.check(cluster.bootstrap)
    assert not list(cluster.directory.glob("broker-*/*-stray")), "nothing looked like a topic that is gone"
    wait_until_in_sync(cluster.bootstrap, ["wide", *TOPICS])


def test_a_backup_is_restored_into_an_empty_etcd(cluster: OttlaCluster, tmp_path: Path) -> None:
    ids = topic_ids(cluster.bootstrap, list(TOPICS))
    offset = write_one(cluster.bootstrap, SAFE)
    file = tmp_path / "state.json"
    where = ("--dir", str(cluster.directory))
    run_ottla("cluster", "backup", str(file), *where)
    cluster.stop()
    refused = run_ottla("cluster", "restore", str(file), "--yes", *where, succeeds=False)
    assert "has the state of a cluster already" in refused.stderr
    lose_etcd(cluster)
    run_ottla("cluster", "restore", str(file), "--dry-run", *where)
    run_ottla("cluster", "restore", str(file), "--yes", *where)
    cluster.start()
    assert topic_ids(cluster.bootstrap, list(TOPICS)) == ids
    assert end_offset(cluster.bootstrap, SAFE) == offset + 1
    check_usable(cluster, "new")


def test_a_cluster_is_recovered_step_by_step_with_an_etcd_of_its_own(tmp_path: Path) -> None:
    """As over several hosts: facts of each broker, a plan, and then the state; etcd is started by somebody else."""
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    cluster = OttlaCluster(tmp_path / "cluster", arguments=("--etcd", etcd.endpoint))
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("flights", 2, 1, config={"retention.ms": "77"})])["flights"].result(TIMEOUT_S)
        ids = topic_ids(cluster.bootstrap, ["flights"])
        assert write_one(cluster.bootstrap, "flights") == 0
        cluster.kill()
        etcd.stop()
        shutil.rmtree(tmp_path / "etcd" / "data")
        etcd.start()

        facts = str(tmp_path / "broker-1.facts")
        run_ottla("cluster", "recover", "inspect", str(broker_directory(cluster, 1)), "--output", facts)
        assert "2 led by a replica that was in sync" in run_ottla("cluster", "recover", "plan", facts).stdout
        apply = ("cluster", "recover", "apply", facts, "--etcd", etcd.endpoint)
        run_ottla(*apply, "--dry-run")
        assert "--yes" in run_ottla(*apply, succeeds=False).stderr
        run_ottla(*apply, "--yes")
        assert "already" in run_ottla(*apply, "--yes", succeeds=False).stderr

        cluster.start()
        assert topic_ids(cluster.bootstrap, ["flights"]) == ids
        assert settings(cluster.bootstrap, "flights") == {"retention.ms": "77"}
        assert write_one(cluster.bootstrap, "flights") == 1
    finally:
        cluster.stop()
        etcd.stop()
