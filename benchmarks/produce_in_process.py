"""A broker's way from a connection to the log in a process that does nothing else, for `produce_instructions.py`.

    python -m benchmarks.produce_in_process

The real connection, dispatcher, handler, partition and log, on uvloop. There is no etcd, no gRPC and nothing that
recurs, and chance has a seed, so two runs with the same requests do the same work.

The standard input is a socket, over which the program is sent a directory together with another socket. It forks a
process which serves that socket, as a client's connection, until its peer closes it, and answers with the id of the
process when that has ended. So what is imported is imported once for many runs.

With the environment variable `OTTLA_BENCHMARK_BINDINGS`, the broker has the standard authorizer and so many access
control lists.
"""

import asyncio
import gc
import os
import random
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

import uvloop

from benchmarks.acl_bindings import bindings
from ottla_broker import request_times
from ottla_broker.channel import PlainChannel
from ottla_broker.connection import Connection
from ottla_broker.dispatch import Dispatcher
from ottla_broker.outcome import Outcome
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.receive_buffer import BufferPool, RequestBudget
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.access_lists import authorization_by
from tests.support.broker.broker_parts import broker_of
from tests.support.broker.partition_logs import open_log
from tests.support.groups.group_cluster import BROKER, BROKER_EPOCH, LISTENER, StatedFeed, broker_member

TOPIC: Final = "measured"
SEED: Final = 1
PATH_BYTES_MAX: Final = 4096
SHOWN: Final = {"metrics.listener": "127.0.0.1:1"}
STATE: Final = PartitionState(
    topic_id=UUID(int=5),
    index=0,
    replicas=(BROKER,),
    isr=(BROKER,),
    leader=BROKER,
    leader_epoch=4,
    leader_broker_epoch=BROKER_EPOCH,
)

BINDINGS: Final = "OTTLA_BENCHMARK_BINDINGS"

_bindings = bindings(int(os.environ[BINDINGS])) if BINDINGS in os.environ else ()


class Registration:
    """Stands for this broker's, which never ends."""

    registered_epoch = BROKER_EPOCH

    def is_current(self) -> bool:
        """Return that it holds."""
        return True


@dataclass
class Owner:
    """Stands for the listener of one connection."""

    dispatcher: Dispatcher
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    request_bytes_max: int = 1 << 20
    budget: RequestBudget = field(default_factory=lambda: RequestBudget(1 << 24))
    pool: BufferPool = field(default_factory=BufferPool)
    shared_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(64 * 1024)))

    def handle(self, frame: memoryview, connection: Connection) -> Outcome:
        return self.dispatcher.handle(frame, connection)

    def on_closed(self, connection: Connection) -> None:
        self.closed.set()

    def wait_for_budget(self, connection: Connection) -> None:
        raise AssertionError("the budget is larger than what is sent")

    def budget_released(self) -> None:
        return

    def unsent_changed(self, difference: int) -> None:
        return


def leader_in(directory: Path) -> Dispatcher:
    """Return the dispatcher of a broker that leads the topic's only partition, and shows metrics."""
    topic = Topic(name=TOPIC, id=STATE.topic_id, partitions=(STATE,))
    brokers = {BROKER: broker_member(BROKER)}
    feed = StatedFeed(ClusterState(brokers=brokers, topics={TOPIC: topic}, topics_by_id={topic.id: topic}))
    config = broker_of(feed, settings=SHOWN).config
    table = PartitionTable(config, feed, Registration())  # type: ignore[arg-type]
    context = ReplicationContext(BROKER, 30_000, int, live_brokers=frozenset(brokers))
    partition = Partition(TopicPartition(TOPIC, 0), open_log(directory), context, STATE)
    partition.apply(STATE, leads=True)
    table.add(partition)
    parts = {} if not _bindings else {"authorization": authorization_by(_bindings)}
    return Dispatcher(broker_of(feed, settings=SHOWN, partitions=table, traffic=context.traffic, **parts))


async def serve(sock: socket.socket, directory: Path) -> None:
    """Serve the connection until its peer closes it."""
    owner = Owner(leader_in(directory))
    sock.setblocking(False)
    Connection(PlainChannel(sock), ("peer", 1), LISTENER, owner, asyncio.get_running_loop())
    await owner.closed.wait()


def serve_in_a_process(sock: socket.socket, directory: Path) -> int:
    """Fork a process that serves a connection, and return its id when it has ended well."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            random.seed(SEED)
            uvloop.run(serve(sock, directory))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"process {pid} has ended with {status}"
    return pid


def main() -> None:
    """Serve until the standard input is closed."""
    # Instrumented code is so slow that every request would pass for a rare one.
    request_times.RARE_NS = request_times.NEVER  # type: ignore[misc]
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=0) as control:
        while True:
            path, fds, _, _ = socket.recv_fds(control, PATH_BYTES_MAX, 1)
            if not path:
                return
            with socket.socket(fileno=fds[0]) as sock:
                pid = serve_in_a_process(sock, Path(path.decode()))
            control.sendall(f"{pid}\n".encode())


if __name__ == "__main__":
    main()
