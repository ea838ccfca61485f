"""Clients may read internal topics and not write them, but for Kafka's admin tools."""

from pathlib import Path

import pytest
from kio.schema.delete_records.v2 import request as delete_records
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from ottla_broker.broker import Broker
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.partition_logs import batch_of, open_log
from tests.support.clients.raw_requests import TIMEOUT, produce_request, produced
from tests.support.groups.group_cluster import BROKER, BROKER_EPOCH, StatedFeed, group_state


class Registration:
    registered_epoch = BROKER_EPOCH

    def is_current(self) -> bool:
        return True


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """A broker that leads the only partition of the topic of groups."""
    feed = StatedFeed(group_state(shard_count=1))
    table = PartitionTable(broker_of(feed).config, feed, Registration())  # type: ignore[arg-type]
    state = feed.state.topics[GROUP_TOPIC].partitions[0]
    partition = Partition(
        TopicPartition(GROUP_TOPIC, 0), open_log(tmp_path / "log"), ReplicationContext(BROKER, 30_000, int), state
    )
    partition.apply(state, leads=True)
    table.add(partition)
    return broker_of(feed, partitions=table)


@pytest.mark.parametrize("client_id", ["client", None, ""])
async def test_a_client_cannot_produce_to_one(broker: Broker, client_id: str | None) -> None:
    request = produce_request(GROUP_TOPIC, batch_of(b"v"))

    answer = produced(await ask(broker, request, client_id=client_id))

    assert answer.error_code is ErrorCode.invalid_topic_exception


async def test_an_admin_tool_can(broker: Broker) -> None:
    answer = produced(await ask(broker, produce_request(GROUP_TOPIC, batch_of(b"v")), client_id="__admin_client"))

    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


async def test_nobody_deletes_records_of_one(broker: Broker) -> None:
    partition = delete_records.DeleteRecordsPartition(partition_index=i32(0), offset=i64(0))
    message = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name=TopicName(GROUP_TOPIC), partitions=(partition,)),),
        timeout=i32Timedelta.parse(TIMEOUT),
    )

    (topic,) = (await ask(broker, message, client_id="__admin_client")).topics

    assert [answer.error_code for answer in topic.partitions] == [ErrorCode.invalid_topic_exception]
