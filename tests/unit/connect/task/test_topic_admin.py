"""Topics that a task needs: whether it is worth trying again when they cannot be created."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla_connect.task.source.topic_creation import NewTopicPlan
from ottla_connect.task.topic_admin import TopicAdmin, TopicNotCreated, TopicNotCreatedYet

PLAN = NewTopicPlan(name="t", partitions=1, replication_factor=1, configs={})


class RefusingBrokers:
    """No topic is there, and none is created."""

    def __init__(self, code):
        self._code = code

    def describe_topics(self, topics, request_timeout):
        return {"t": failed(KafkaError.UNKNOWN_TOPIC_OR_PART)}

    def create_topics(self, topics, request_timeout):
        return {"t": failed(self._code)}


def failed(code):
    future = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


@pytest.mark.parametrize(
    "code", [KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT, KafkaError._TRANSPORT]
)
def test_what_the_brokers_cannot_do_now_is_worth_another_try(code):
    with pytest.raises(TopicNotCreatedYet):
        TopicAdmin(lambda: RefusingBrokers(code)).ensure(PLAN)


def test_what_the_brokers_refuse_is_not():
    with pytest.raises(TopicNotCreated) as refused:
        TopicAdmin(lambda: RefusingBrokers(KafkaError.TOPIC_AUTHORIZATION_FAILED)).ensure(PLAN)
    assert not isinstance(refused.value, TopicNotCreatedYet)
