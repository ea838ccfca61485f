"""How fast a follower that has nothing copies what its leader has, beside `sendfile` between two processes.

A topic is filled on one broker. Then two processes that do nothing else copy its files: one sends them with
`sendfile`, the other receives and writes them. That is the floor. Then a second broker gets a replica of the topic,
and the time is taken from the request until the replica is in sync. All dirty pages are on the disk before either
begins.
"""

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.alter_partition_reassignments.v0 import request as reassignments
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v1.request import MetadataRequest
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from benchmarks.client import (
    ADMIN_TIMEOUT_S,
    CLIENT_SETTINGS,
    TOPIC_CONFIG,
    BenchmarkFailed,
    delete_topic,
    wait_for_leaders,
)
from benchmarks.groups import ProcessMeter
from benchmarks.summary import Measures
from benchmarks.throughput import random_values
from ottla_core.wire.records import Record, encode_batch
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import TIMEOUT, produce_request, produced
from tests.support.clusters.ottla_cluster import OttlaCluster

LEADER, FOLLOWER = 1, 2
BUFFER_BYTES = 1024 * 1024
SENT_AT_ONCE_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 600.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpPlan:
    """What to measure.

    Attributes:
        record_bytes: size of each value.
        batch_bytes: of values in one batch.
        total_bytes: of all values.
        partitions: among which they are spread evenly.
        repetitions: how often both copies are made; they take turns.
        broker_arguments: what `ottla up` is told besides.
    """

    record_bytes: int = 1000
    batch_bytes: int = 1_000_000
    total_bytes: int = 10_000_000_000
    partitions: int = 1
    repetitions: int = 1
    broker_arguments: Sequence[str] = ()


def measure(directory: Path, plan: CatchUpPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of both, by the best of all repetitions."""
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {"sendfile": [], "follower": []}
    with OttlaCluster(directory / "cluster", brokers=2, arguments=plan.broker_arguments) as cluster:
        processes = {s.id: s.pid for s in cluster.services if s.role == "broker"}
        topic = _create(cluster.bootstrap, plan.partitions)
        say(f"publishing {plan.total_bytes / 1e9:g} GB")
        _fill(cluster.bootstrap, topic, plan)
        files = sorted((directory / "cluster").rglob(f"{topic}-*/*.log"))
        for repetition in range(plan.repetitions):
            say(f"{repetition + 1}/{plan.repetitions} sendfile")
            found["sendfile"].append(_copy(files, directory / "copy"))
            say(f"{repetition + 1}/{plan.repetitions} follower")
            found["follower"].append(_catch_up(cluster.bootstrap, topic, plan.partitions, files, processes))
        delete_topic(cluster.bootstrap, topic)
    results: dict[str, Measures] = {name: max(runs, key=lambda run: run["mb_per_s"]) for name, runs in found.items()}
    best = {name: max(run["mb_per_s"] for run in runs) for name, runs in found.items()}
    results["ratios"] = {"follower_to_sendfile": best["follower"] / best["sendfile"]}
    return results


# The topic


def _create(bootstrap: str, partitions: int) -> str:
    name = f"benchmark-{time.time_ns():x}"
    topic = NewTopic(name, num_partitions=partitions, replica_assignment=[[LEADER]] * partitions, config=TOPIC_CONFIG)
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)
    wait_for_leaders(bootstrap.partition(",")[0], partitions, name)
    return name


def _fill(bootstrap: str, topic: str, plan: CatchUpPlan) -> None:
    """Publish the same batch again and again, as its content does not matter to those who copy it."""
    values = random_values(plan.record_bytes)
    count = max(1, plan.batch_bytes // plan.record_bytes)
    now_ms = int(time.time() * 1000)
    batch = encode_batch([Record(n, now_ms, None, values[n % len(values)], ()) for n in range(count)])
    with RawClient.to(bootstrap.partition(",")[0]) as client:
        for number in range(plan.total_bytes // (count * plan.record_bytes)):
            _publish(client, produce_request(topic, batch, partition=number % plan.partitions, acks=1))


def _publish(client: RawClient, request: Any) -> None:
    """Send a request until the broker takes it: it may hear of its election a moment after its clients."""
    give_up_s = time.monotonic() + ADMIN_TIMEOUT_S
    while (error := produced(client.ask(request)).error_code) is not ErrorCode.none:
        if error is not ErrorCode.not_leader_or_follower or time.monotonic() > give_up_s:
            raise BenchmarkFailed(f"cannot publish: {error!r}")
        time.sleep(POLL_S)


# The floor


def _copy(files: Sequence[Path], target: Path) -> dict[str, float]:
    """Copy files from one process to another, into files of a directory."""
    os.sync()
    target.mkdir()
    spawn = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        receiver = spawn.Process(target=_receive, args=(listening, [target / str(n) for n in range(len(files))],
                                                        [file.stat().st_size for file in files]))  # fmt: skip
        receiver.start()
        sender = spawn.Process(target=_send, args=(port, files))
        sender.start()
        for process in (sender, receiver):
            process.join(TIMEOUT_S)
            if process.exitcode != 0:
                raise BenchmarkFailed(f"a copying process ended with {process.exitcode}")
    elapsed_s = float((target / "elapsed").read_text())
    size = sum(file.stat().st_size for file in files)
    cpu_s = float((target / "cpu").read_text())
    for copy in target.iterdir():
        copy.unlink()
    target.rmdir()
    return {"mb_per_s": size / 1e6 / elapsed_s, "receiver_cpu_s_per_gb": cpu_s / (size / 1e9)}


def _send(port: int, files: Sequence[Path]) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for path in files:
            with path.open("rb") as file:
                size, position = path.stat().st_size, 0
                while position < size:
                    position += os.sendfile(sock.fileno(), file.fileno(), position, SENT_AT_ONCE_BYTES)


def _receive(listening: socket.socket, targets: Sequence[Path], sizes: Sequence[int]) -> None:
    buffer = memoryview(bytearray(BUFFER_BYTES))
    sock, _ = listening.accept()
    began_s = time.perf_counter()
    used_s = time.process_time()
    for target, size in zip(targets, sizes, strict=True):
        left = size
        with target.open("wb", buffering=0) as file:
            while left:
                count = sock.recv_into(buffer[: min(left, BUFFER_BYTES)])
                if not count:
                    raise BenchmarkFailed("the sender ended too early")
                file.write(buffer[:count])
                left -= count
    directory = targets[0].parent
    (directory / "elapsed").write_text(str(time.perf_counter() - began_s))
    (directory / "cpu").write_text(str(time.process_time() - used_s))


# The follower


def _catch_up(
    bootstrap: str, topic: str, partitions: int, files: Sequence[Path], processes: dict[int, int]
) -> dict[str, float]:
    """Give the topic a second replica, wait until it is in sync, and take it away again."""
    os.sync()
    size = sum(file.stat().st_size for file in files)
    with RawClient.to(bootstrap.partition(",")[0]) as client:
        meter = ProcessMeter({str(broker): pid for broker, pid in processes.items()})
        reassign(client, topic, partitions, (LEADER, FOLLOWER))
        wait_until_in_sync(client, topic, {LEADER, FOLLOWER})
        cpu_s, elapsed_s = meter.stop()
        reassign(client, topic, partitions, (LEADER,))
        wait_until_in_sync(client, topic, {LEADER})
    gigabytes = size / 1e9
    return {
        "mb_per_s": size / 1e6 / elapsed_s,
        "follower_cpu_s_per_gb": cpu_s[str(FOLLOWER)] / gigabytes,
        "leader_cpu_s_per_gb": cpu_s[str(LEADER)] / gigabytes,
    }


def reassign(client: RawClient, topic: str, partitions: int, replicas: Sequence[int]) -> None:
    """Ask for these replicas of all partitions."""
    wanted = tuple(
        reassignments.ReassignablePartition(
            partition_index=i32(index), replicas=tuple(BrokerId(replica) for replica in replicas)
        )
        for index in range(partitions)
    )
    request = reassignments.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT, topics=(reassignments.ReassignableTopic(name=TopicName(topic), partitions=wanted),)
    )
    answer: Any = client.ask(request)
    errors = [partition.error_code for response in answer.responses for partition in response.partitions]
    if answer.error_code is not ErrorCode.none or any(error is not ErrorCode.none for error in errors):
        raise BenchmarkFailed(f"cannot reassign: {answer.error_code!r} {errors!r}")


def wait_until_in_sync(client: RawClient, topic: str, in_sync: set[int]) -> None:
    """Wait until these are the in-sync replicas of all partitions."""
    give_up_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < give_up_s:
        answer: Any = client.ask(MetadataRequest(topics=None))
        found = [set(p.isr_nodes) for t in answer.topics if t.name == topic for p in t.partitions]
        if found and all(isr == in_sync for isr in found):
            return
        time.sleep(POLL_S)
    raise BenchmarkFailed(f"{topic} does not have the replicas {in_sync} in sync after {TIMEOUT_S} s")
