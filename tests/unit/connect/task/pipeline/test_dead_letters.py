"""Dead letter topics: what is in a record there, and what happens when it cannot be written."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from ottla_connect.ids import TaskId
from ottla_connect.task.measures import ErrorMeasures
from ottla_connect.task.pipeline.dead_letters import (
    DeadLetters,
    DeadLetterSettings,
    DeadLettersLost,
    DeadLettersUnavailable,
)
from ottla_connect.task.pipeline.error_handler import Failure
from ottla_connect.task.pipeline.errors import Stage
from ottla_sdk import DataError


class FakeProducer:
    def __init__(self):
        self.sent = []
        self.error = None
        self.left = 0
        self.refusal = None

    def produce(self, topic, value, key, *, on_delivery, timestamp, headers):
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        self.sent.append((topic, value, key, timestamp, headers))
        on_delivery(self.error, None)

    def flush(self, timeout_s):
        return self.left

    def __len__(self):
        return self.left


class Parts:
    def __init__(self, *, headers=False):
        self.producer = FakeProducer()
        self.made = 0
        self.measures = ErrorMeasures()
        self.letters = DeadLetters(
            task=TaskId("flights", 3),
            settings=DeadLetterSettings("dead", 3, headers),
            make_producer=self.make,
            measures=self.measures,
            redact=lambda text: text.replace("hunter2", "${secret}"),
        )

    def make(self):
        self.made += 1
        return self.producer

    def report(self):
        message = Message(
            topic="t", partition=1, offset=7, key=b"k", value=b"v", headers=[("own", b"h")], timestamp=(1, 55)
        )
        self.letters.report(Failure(message, Stage.TASK_PUT, Parts, DataError("refused hunter2")))


def test_settings_name_a_topic_or_there_are_no_dead_letters():
    assert DeadLetterSettings.of({}) is None
    assert DeadLetterSettings.of({"errors.deadletterqueue.topic.name": " dead "}) == DeadLetterSettings(
        "dead", 3, False
    )


def test_a_record_is_written_as_it_was():
    parts = Parts()
    parts.report()
    parts.report()
    parts.letters.flush(1.0)
    assert parts.producer.sent == [("dead", b"v", b"k", 55, [("own", b"h")])] * 2
    assert (parts.made, parts.measures.dead_letters) == (1, 2)


def test_headers_say_where_it_is_from_and_why():
    parts = Parts(headers=True)
    parts.report()
    headers = dict(parts.producer.sent[0][4])
    prefix = "__connect.errors."
    assert headers.pop(prefix + "exception.stacktrace").endswith(b"DataError: refused ${secret}\n")
    assert headers == {
        "own": b"h",
        prefix + "topic": b"t",
        prefix + "partition": b"1",
        prefix + "offset": b"7",
        prefix + "connector.name": b"flights",
        prefix + "task.id": b"3",
        prefix + "stage": b"TASK_PUT",
        prefix + "class.name": f"{__name__}.Parts".encode(),
        prefix + "exception.class.name": b"ottla_sdk.errors.DataError",
        prefix + "exception.message": b"refused ${secret}",
    }


def test_a_letter_that_does_not_arrive_must_not_be_passed_over():
    parts = Parts()
    parts.producer.error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    parts.report()
    with pytest.raises(DeadLettersLost, match="dead") as lost:
        parts.letters.flush(1.0)
    assert not isinstance(lost.value, DeadLettersUnavailable)
    assert parts.measures.dead_letter_failures == 1


def test_a_letter_that_does_not_arrive_because_the_brokers_are_away_may_do_so_later():
    parts = Parts()
    parts.producer.error = KafkaError(KafkaError._MSG_TIMED_OUT)
    parts.report()
    with pytest.raises(DeadLettersUnavailable, match="dead"):
        parts.letters.flush(1.0)


def test_a_letter_that_the_producer_itself_refuses_is_not_passed_over_either():
    parts = Parts()
    parts.producer.refusal = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    parts.report()
    with pytest.raises(DeadLettersLost):
        parts.letters.flush(1.0)


def test_letters_that_take_too_long_are_not_passed_over():
    parts = Parts()
    parts.report()
    parts.producer.left = 1
    with pytest.raises(DeadLettersUnavailable, match="1 records did not reach"):
        parts.letters.flush(1.0)


def test_without_letters_there_is_no_producer():
    parts = Parts()
    parts.letters.flush(1.0)
    assert parts.made == 0


def test_a_record_for_which_the_queue_never_has_room_is_a_dead_letter_lost():
    class Full(FakeProducer):
        polls = 0

        def produce(self, *_, **__):
            raise BufferError

        def poll(self, timeout_s):
            self.polls += 1
            assert self.polls < 20, "it waits for ever"

    parts = Parts()
    parts.producer = Full()
    parts.report()
    with pytest.raises(DeadLettersLost, match=r"buffer\.memory"):
        parts.letters.flush(1)
