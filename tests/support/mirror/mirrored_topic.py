"""A topic with one partition that a test copies by itself, leaving records out and adding some, with a map of it.

Records of the source have their offset as value, and so have their copies: what an offset is at the target can be
counted without the map. Records of somebody else at the target have the value `FOREIGN`.
"""

import asyncio
import random
import uuid
from dataclasses import dataclass, field, replace

from ottla_core.client.cluster import AsyncCluster
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.map_topic import MapTopic
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, begun
from ottla_mirror.topics.topic_admin import TopicAdmin

FOREIGN = b"foreign"
MADE_DEADLINE_S = 30.0


def plain_topic(cluster: AsyncCluster, name: str) -> InternalTopic:
    """A topic that keeps all its records."""
    return InternalTopic(cluster, name, replication_factor=1, is_compacted=False, settings={"retention.ms": "-1"})


async def _made_anew(topic: InternalTopic) -> InternalTopic:
    former = await topic.topic_id()
    await TopicAdmin(topic._cluster, "the cluster", MADE_DEADLINE_S).delete(topic.name)
    made = plain_topic(topic._cluster, topic.name)
    async with asyncio.timeout(MADE_DEADLINE_S):
        while await made.topic_id() in (None, former):
            await made.ensure()
    return made


@dataclass
class MirroredTopic:
    """One topic of the source and its copy; `begin` makes them.

    Attributes:
        name: at the source.
        remote_name: at the target.
        end: the source's log end.
    """

    source: InternalTopic
    target: InternalTopic
    maps: MapTopic
    partition: SourcePartition
    copy: StoredCopy
    end: int = 0
    pending: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def remote_name(self) -> str:
        return self.target.name

    @classmethod
    async def begin(
        cls, source: AsyncCluster, target: AsyncCluster, maps: MapTopic, *, alias: str, prefix: str = "orders"
    ) -> "MirroredTopic":
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        here, there = plain_topic(source, name), plain_topic(target, f"{alias}.{name}")
        await here.ensure()
        await there.ensure()
        source_id, target_id = await here.topic_id(), await there.topic_id()
        assert source_id is not None
        assert target_id is not None
        partition = SourcePartition(topic=name, topic_id=source_id, partition=0)
        session = Session(
            producer_id=random.getrandbits(30),
            producer_epoch=0,
            source_topic_id=source_id,
            source_start_offset=0,
            target_topic_id=target_id,
            target_start_offset=0,
            replaces=None,
        )
        await maps.begin_session(partition, session)
        copied = cls(here, there, maps, partition, begun(session, None))
        await copied.save()
        return copied

    async def write(self, count: int) -> None:
        """Writes records at the source."""
        await self.source.append([Entry(b"k", b"%d" % (self.end + place)) for place in range(count)])
        self.pending += range(self.end, self.end + count)
        self.end += count

    async def copy_on(self, chance: random.Random, count: int = 10_000) -> None:
        """Copies the next records, but for some that are left out and some of somebody else between them."""
        taken, self.pending = self.pending[:count], self.pending[count:]
        while taken:
            if chance.random() < 0.3:
                await self.target.append([Entry(b"k", FOREIGN)] * chance.randint(1, 3))
            size = chance.randint(1, 8)
            batch, taken = taken[:size], taken[size:]
            if chance.random() < 0.3:
                self.copy.map.skip_to(batch[-1] + 1)
                continue
            last = await self.target.append([Entry(b"k", b"%d" % offset) for offset in batch])
            self.copy.map.append(batch[0], last - len(batch) + 1, len(batch))
        await self.save()

    async def make_source_anew(self) -> None:
        """Deletes the topic of the source and makes another one of its name, without records."""
        self.source, self.end, self.pending = await _made_anew(self.source), 0, []

    async def make_target_anew(self) -> None:
        """Deletes the copy's topic and makes another one of its name, without records."""
        self.target = await _made_anew(self.target)

    async def begin_session(self) -> None:
        """Begins to copy anew, of the topics as they are now and from the source's first record on."""
        source_id, target_id = await self.source.topic_id(), await self.target.topic_id()
        assert source_id is not None
        assert target_id is not None
        former = self.copy.session
        session = replace(
            former,
            producer_epoch=former.producer_epoch + 1,
            source_topic_id=source_id,
            target_topic_id=target_id,
            target_start_offset=await self.target.end_offset(),
            replaces=former.name,
        )
        self.partition = replace(self.partition, topic_id=source_id)
        await self.maps.begin_session(self.partition, session)
        self.copy = begun(session, None)
        self.pending = list(range(self.end))
        await self.save()

    async def save(self) -> None:
        self.copy = replace(self.copy, next_sequence=sum(run.record_count for run in self.copy.map.runs()))
        await self.maps.save({self.partition: self.copy})

    async def expected(self, source_offset: int) -> int:
        """The target offset of the first copied record that is not before this one, counted at the target."""
        found, last, at = [], -1, 0
        end = await self.target.end_offset()
        while at < end:
            fetched = await self.target.fetch(at)
            at = fetched.next_offset
            for record in (each for batch in fetched.batches for each in batch.records):
                assert record.value is not None
                if record.value != FOREIGN:
                    last = record.offset
                    if int(record.value) >= source_offset:
                        found.append(record.offset)
        return min(found, default=last + 1)
