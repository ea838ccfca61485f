"""Why brokers do not answer: whether that passes by itself."""

import pytest
from confluent_kafka import KafkaError

from ottla_spark.datasource.errors import ClusterUnreachable, ReadFailed, ReadRefused
from ottla_spark.datasource.refusals import Connections, failure
from ottla_spark.formats.format import Format
from ottla_spark.job import topic_admin
from ottla_spark.job.plan import JobPlan, Table, TopicRead
from ottla_spark.job.query_text import SqlQuery

TIMED_OUT = KafkaError._TIMED_OUT
AUTHENTICATION = KafkaError._AUTHENTICATION


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (TIMED_OUT, ClusterUnreachable),
        (KafkaError._TRANSPORT, ClusterUnreachable),
        (AUTHENTICATION, ReadRefused),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ReadRefused),
        (KafkaError.NOT_LEADER_FOR_PARTITION, ReadFailed),
    ],
)
def test_the_code_says_whether_somebody_is_away_or_refuses(code: int, kind: type[Exception]) -> None:
    assert type(failure(KafkaError(code), "cannot ask")) is kind


def test_a_refused_login_is_told_by_connections_and_not_by_the_question_that_timed_out() -> None:
    connections = Connections()
    told = connections.told_by({"bootstrap.servers": "127.0.0.1:1"})["error_cb"]
    assert callable(told)
    told(KafkaError(AUTHENTICATION, "wrong password"))
    told(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    error = failure(KafkaError(TIMED_OUT), "cannot ask", connections)
    assert isinstance(error, ReadRefused)
    assert str(error) == "cannot ask: wrong password"


def test_a_job_that_starts_while_no_broker_is_there_is_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_admin, "LIST_TOPICS_TIMEOUT_S", 0.2)
    text = Format(name="string")
    table = Table(name="flights", streaming=True, reading=TopicRead(topics=("flights",), key=text, value=text))
    plan = JobPlan(
        connector="delays", checkpoint_location="/nowhere", tables=(table,), query=SqlQuery(query=""), outputs=()
    )
    with pytest.raises(ClusterUnreachable, match=r"the topics at 127\.0\.0\.1:1 cannot be listed: "):
        topic_admin.check_topics(plan, {"bootstrap.servers": "127.0.0.1:1"})
