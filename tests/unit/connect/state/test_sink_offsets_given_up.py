"""Questions to a sink's group are given up by the worker: librdkafka ends the process where they time out in it."""

import subprocess
import sys

SURVIVAL_WITHIN_S = 60
GIVES_UP_BEFORE_THE_COORDINATOR_IS_FOUND = """
import asyncio

from confluent_kafka.admin import AdminClient

from ottla_connect.config import WorkerConfig
from ottla_connect.state import sink_offsets
from ottla_connect.state.kafka_clients import KafkaClients
from ottla_sdk import TopicPartition


def slow_client(*_):
    slow = {"bootstrap.servers": "none", "test.mock.num.brokers": 3, "test.mock.broker.rtt": 100, "log_level": 0}
    client = AdminClient(slow)
    client.list_topics(timeout=20)
    return client


def offsets(group, within_s):
    sink_offsets.REQUEST_TIMEOUT_S = within_s
    return sink_offsets.SinkOffsets(WorkerConfig.parse({"bootstrap.servers": "127.0.0.1:1"}), group, {})


async def main():
    kept = []
    late = offsets("late", 0.05)
    for question in (late.read(), late.alter({TopicPartition("t", 0): 5}), late.delete()):
        try:
            await question
        except sink_offsets.SinkOffsetsError as error:
            kept.append(error)
        # Takes as many answers as the lookup before, and began later.
        assert await offsets("found", 20).read() == {}
    assert {str(each) for each in kept} == {"group late: its coordinator did not answer within 0.05 s"}
    assert len(kept) == 3


KafkaClients.admin = slow_client
asyncio.run(main())
print("survived")
"""


def test_a_worker_survives_coordinators_that_are_found_after_a_question_was_given_up() -> None:
    program = [sys.executable, "-c", GIVES_UP_BEFORE_THE_COORDINATOR_IS_FOUND]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=SURVIVAL_WITHIN_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, "survived\n"), ended.stderr
