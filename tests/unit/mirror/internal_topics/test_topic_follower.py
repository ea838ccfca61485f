"""What cannot be read is refused for as long as it is there, however often it is tried."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.transactions.transaction_rules import Producer
from ottla_mirror.internal_topics.errors import WrittenByNewerVersion
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_follower import TopicFollower
from ottla_mirror.internal_topics.topic_requests import Fetched
from tests.support.mirror.transaction_model import LogModel, MapTopicModel


class BatchByBatch(MapTopicModel):
    """A topic of which each answer has one batch."""

    async def fetch(self, offset: int, timeout_s: float = 0) -> Fetched:
        (batch, *_) = self.log.read(offset)
        return Fetched([batch], batch.header.next_offset)


def test_a_record_of_a_newer_version_is_refused_each_time_though_it_was_committed_in_a_transaction() -> None:
    log = LogModel()
    batch = encode_batch(
        [Record(0, 0, b"k", b"newer")], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log._place(batch, parse_header(batch))
    log.mark(Producer(7, 0), commits=True)
    told: list[Record] = []

    def on_records(records: Sequence[Record]) -> None:
        if any(each.value == b"newer" for each in records):
            raise WrittenByNewerVersion("use that version")
        told.extend(records)

    async def scenario() -> None:
        follower = TopicFollower(
            cast("InternalTopic", BatchByBatch(log)), on_records=on_records, on_restart=told.clear
        )
        for _ in range(3):
            with pytest.raises(WrittenByNewerVersion):
                await follower.catch_up()

    asyncio.run(scenario())
