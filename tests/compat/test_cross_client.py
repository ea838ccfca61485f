"""What one client publishes another reads: equal keys, values, headers, timestamps and order, in every codec."""

from itertools import permutations

import pytest

from tests.compat.aiokafka.client import AioKafkaClient
from tests.compat.cases import (
    CODECS,
    PARTITIONS,
    ClientUnderTest,
    PublishCase,
    publish_and_read_back,
    varied_messages,
)
from tests.compat.confluent.client import ConfluentClient
from tests.compat.kafka_python.client import KafkaPythonClient
from tests.compat.kcat.client import KcatClient
from tests.conftest import TopicFactory
from tests.support.requirements import require

CLIENTS: dict[str, ClientUnderTest] = {
    "confluent": ConfluentClient(),
    "kafka-python": KafkaPythonClient(),
    "aiokafka": AioKafkaClient(),
    "kcat": KcatClient(),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("publisher", "reader"), list(permutations(CLIENTS, 2)))
def test_one_client_reads_what_another_published(
    bootstrap: str, new_topic: TopicFactory, publisher: str, reader: str, codec: str
) -> None:
    if "kcat" in {publisher, reader}:
        require("kcat")
    case = PublishCase(name=f"{publisher}-to-{reader}", codec=codec, idempotent=True, messages=varied_messages())
    topic = new_topic(partitions=PARTITIONS)
    publish_and_read_back(CLIENTS[publisher], CLIENTS[reader], bootstrap, topic, case)
