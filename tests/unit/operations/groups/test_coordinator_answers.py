"""Requests to coordinators of groups are given up by us: librdkafka ends the process where they time out in it."""

import subprocess
import sys
from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ottla_operations.groups.coordinator_answers import CoordinatorAnswers, is_waiting
from ottla_operations.groups.several import standings
from ottla_sdk.kafka.coordinator_requests import close

SURVIVAL_WITHIN_S = 60
GIVES_UP_BEFORE_THE_COORDINATOR_IS_FOUND = """
from confluent_kafka.admin import AdminClient
from ottla_operations.groups.several import standings

slow = {"bootstrap.servers": "none", "test.mock.num.brokers": 3, "test.mock.broker.rtt": 200, "log_level": 0}
client = AdminClient(slow)
client.list_topics(timeout=20)
for turn in range(8):
    late = standings(client, [f"late-{turn}-{each}" for each in range(20)], "none", timeout_s=0.1)
    assert all("did not answer" in each.problem for each in late.values()), late
    # Lookups over the same connections, so the earlier ones have been answered before.
    found = standings(client, [f"found-{turn}-{each}" for each in range(3)], "none", timeout_s=20)
    assert all(each.committed is not None for each in found.values()), found
print("survived")
"""


class FakeClient:
    """Stands for a client that has sent a request."""


def fake_client() -> AdminClient:
    return cast(AdminClient, FakeClient())


def test_a_process_survives_coordinators_that_are_found_after_the_question_was_given_up() -> None:
    program = [sys.executable, "-c", GIVES_UP_BEFORE_THE_COORDINATOR_IS_FOUND]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=SURVIVAL_WITHIN_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, "survived\n"), ended.stderr


def test_a_client_whose_answer_came_in_time_is_kept() -> None:
    client, future = fake_client(), Future[int]()
    future.set_result(3)
    assert CoordinatorAnswers(client, 0.0).of(future) == 3
    assert not is_waiting(client)


def test_a_refusal_is_an_answer() -> None:
    client, future = fake_client(), Future[int]()
    future.set_exception(KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND)))
    with pytest.raises(KafkaException) as raised:
        CoordinatorAnswers(client, 0.0).of(future)
    assert raised.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
    assert not is_waiting(client)


def test_a_client_whose_answer_did_not_come_in_time_is_known_as_waiting() -> None:
    client, other = fake_client(), fake_client()
    with pytest.raises(KafkaException) as raised:
        CoordinatorAnswers(client, 0.0).of(Future[int]())
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    assert is_waiting(client)
    assert not is_waiting(other)


def test_a_client_that_waits_can_be_closed() -> None:
    client = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    (found,) = standings(client, ["payments"], "127.0.0.1:1", timeout_s=0.1).values()
    assert found.problem is not None
    assert is_waiting(client)
    close(client)
    with pytest.raises(RuntimeError, match="closed"):
        client.poll(0)
