"""Which failures of a process pass by themselves, so that it is started again for ever."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla_connect.processes.messages import Outlook
from ottla_connect.task.control import OffsetsUnavailable
from ottla_connect.task.pipeline.dead_letters import DeadLettersLost, DeadLettersUnavailable
from ottla_connect.task.pipeline.error_handler import Unavailable
from ottla_connect.task.process import failure
from ottla_connect.task.topic_admin import TopicNotCreatedYet
from ottla_sdk import DataError, FatalError, RetriableError
from ottla_sdk.runtime.redaction import Redaction


@pytest.mark.parametrize(
    ("error", "outlook"),
    [
        (RetriableError("busy"), Outlook.PASSING),
        (Unavailable("the registry is away"), Outlook.PASSING),
        (OffsetsUnavailable("no leader"), Outlook.PASSING),
        (DeadLettersUnavailable("no leader"), Outlook.PASSING),
        (TopicNotCreatedYet("no controller"), Outlook.PASSING),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), Outlook.PASSING),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), Outlook.OPEN),
        (DeadLettersLost("too large"), Outlook.OPEN),
        (DataError("no number"), Outlook.OPEN),
        (ValueError("a bug"), Outlook.OPEN),
        (SystemExit(1), Outlook.OPEN),
        (FatalError("no such table"), Outlook.FATAL),
    ],
)
def test_a_failure_passes_by_itself_only_if_something_else_is_away(error, outlook):
    assert failure(error, Redaction()).outlook is outlook
