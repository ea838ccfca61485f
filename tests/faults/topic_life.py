"""An operator's own topic: created, filled, moved, deleted in part or as a whole, created anew, step after step.

One thread takes one step after the other, so a model of the topic (`topic_model.py`) knows at every moment what must
be there, may be there and must not. After an acknowledgement it looks at once: the leader of the newest epoch that
any broker tells must list an end behind the record and give the record to a new reader, as soon as it gives anything;
and every broker must tell the offset that was committed.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.faults.operator_requests import OperatorRequests, Partition
from tests.faults.topic_model import PartitionModel, TopicModel, start_problems
from tests.support.clients.raw_requests import EARLIEST, LATEST, delete_records_request, produce_request
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

PARTITIONS_FIRST = (1, 3)
PARTITIONS_MAX = 5
VALUES_PER_STEP = (1, 20)
STEP_PAUSE_S = (0.0, 0.4)
READ_BYTES = 1 << 20
PROBLEMS_MAX = 20
LOOKS_MAX = 200
DELETION_DURABLE_S = 4.0
"""From here on brokers have written down where a log starts; see `start_problems`."""
CONFIGS = {
    "segment.bytes": "16384",
    "segment.ms": "1000",
    "file.delete.delay.ms": "1000",
    "retention.ms": "-1",
    "min.insync.replicas": "2",
}
STEPS = {
    "produce": 10,
    "commit": 4,
    "delete_records": 4,
    "read": 4,
    "move": 2,
    "add_partition": 1,
    "create_anew": 1,
}


class TopicLife:
    """One topic and its operator.

    Attributes:
        model: what must be there.
        problems: what was not as it must be.
        counts: how often each step was taken.
    """

    def __init__(
        self, name: str, requests: OperatorRequests, *, factor: int, seed: str, crashes_s: Sequence[float]
    ) -> None:
        self.model = TopicModel(name)
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._requests = requests
        self._factor = factor
        self._chance = random.Random(seed)
        self._crashes_s = crashes_s
        self._epochs: dict[int, Partition] = {}
        self._ids: set[UUID] = set()
        self._former_ids: set[UUID] = set()
        self._name = name

    def live(self, until: threading.Event) -> None:
        """Takes steps until it is told to end; the topic stays."""
        try:
            while not until.is_set() and len(self.problems) < PROBLEMS_MAX:
                self._step()
                until.wait(self._chance.uniform(*STEP_PAUSE_S))
        except AssertionError as error:
            self.problems.append(f"{self._name} in its life {self.model.life}: {error}")

    def look_at_everything(self) -> None:
        """Compares all that is there with the model; the cluster must be well."""
        for index in range(len(self.model.partitions)):
            read, told = self.counts["read"], self.counts["told offsets"]
            for _ in range(LOOKS_MAX):
                if self.counts["read"] == read:
                    self._try(partial(self._read, index))
                if self.counts["told offsets"] == told:
                    self._try(partial(self._compare_offsets, index))
                if self.counts["read"] > read and self.counts["told offsets"] > told:
                    break
                time.sleep(0.1)  # between two looks; LOOKS_MAX bounds them
            else:
                self.problems.append(f"{self._name}-{index} cannot be read after healing")

    def _step(self) -> None:
        if not self.model.exists:
            self._create()
            return
        what = self._chance.choices(list(STEPS), list(STEPS.values()))[0]
        if what == "create_anew":
            self._try(self._delete)
            return
        index = self._chance.randrange(len(self.model.partitions))
        steps: dict[str, Callable[[int], None]] = {
            "produce": self._produce,
            "commit": self._commit,
            "delete_records": self._delete_records,
            "read": self._read,
            "move": self._move,
            "add_partition": self._add_partition,
        }
        self._try(lambda: steps[what](index))
        self.counts[what] += what != "read"

    def _try(self, act: Callable[[], None]) -> None:
        """Does something that may well fail while faults are in force."""
        try:
            act()
        except ConnectionError:
            self.counts["unanswered"] += 1

    def _create(self) -> None:
        partitions = self._chance.randint(*PARTITIONS_FIRST)
        topic_id = self._requests.create_topic(
            self._name, partitions=partitions, factor=self._factor, configs=CONFIGS
        )
        self._epochs.clear()
        self._ids = set() if topic_id is None else {topic_id}
        self.model.begin_life(partitions)
        self.counts["lives"] += 1

    def _delete(self) -> None:
        if not self._ids:
            self._look_at_topic()
        (topic_id,) = self._ids
        self._requests.delete_topic(self._name, topic_id)
        self._former_ids.add(topic_id)
        self.model.end_life()

    def _look_at_topic(self, broker: int | None = None) -> dict[int, Partition]:
        """The partitions as a broker shows them.

        Raises:
            ConnectionError: it shows nothing, or an earlier state of the topic.
        """
        shown = self._requests.topic(self._name, broker)
        if shown is None or shown.topic_id in self._former_ids or len(shown.partitions) < len(self.model.partitions):
            raise ConnectionError("the broker lags behind")
        self._ids.add(shown.topic_id)
        assert len(self._ids) == 1, f"it has several ids: {sorted(map(str, self._ids))}"
        return shown.partitions

    def _leader_of(self, index: int) -> Partition:
        """The partition as of the newest leader epoch that was ever seen in this life, after another look.

        Raises:
            ConnectionError: nobody knows a leader.
        """
        seen = self._look_at_topic()
        known = self._epochs.get(index)
        partition = seen[index] if known is None or seen[index].leader_epoch >= known.leader_epoch else known
        self._epochs[index] = partition
        if partition.leader < 0:
            raise ConnectionError("no leader")
        return partition

    def _produce(self, index: int) -> None:
        partition = self._leader_of(index)
        model = self.model.partitions[index]
        values = self.model.new_values(self._chance.randint(*VALUES_PER_STEP))
        request = produce_request(self._name, batch_of(values).encode(), partition=index)
        model.doubtful.update(values)
        try:
            answer = self._requests.ask(request, partition.leader).responses[0].partition_responses[0]
        except ConnectionError:
            self.model.unanswered.update(values)
            raise
        if answer.error_code is not ErrorCode.none:
            return
        model.doubtful.difference_update(values)
        model.acknowledged.update(enumerate(values, start=answer.base_offset))
        self._look_for(index, answer.base_offset + len(values) - 1)

    def _look_for(self, index: int, offset: int) -> None:
        """Looks for an acknowledged record with the leader of the newest epoch."""
        partition = self._leader_of(index)
        end = self._listed(index, partition, LATEST)
        if end is not None:
            self.counts["listed"] += 1
            if end <= offset:
                self._found(index, f"lists the end {end} after {offset} was acknowledged, by {partition}")
        self._look_at_start(index, partition)
        error, found = self._fetched(index, partition, offset)
        if error is ErrorCode.offset_out_of_range:
            self._found(index, f"says that {offset}, just acknowledged, is out of range, by {partition}")
        elif found:
            self.counts["seen"] += 1
            wanted = self.model.partitions[index].acknowledged[offset]
            if dict(found).get(offset) != wanted:
                self._found(index, f"has {dict(found).get(offset)!r} at {offset} instead of {wanted!r}")

    def _listed(self, index: int, partition: Partition, timestamp: int) -> int | None:
        wanted = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": partition.leader_epoch}
        topic = {"name": self._name, "partitions": [wanted]}
        request = sparse_request("list_offsets", 7, replica_id=-1, isolation_level=0, topics=[topic])
        (answer,) = self._requests.ask(request, partition.leader).topics[0].partitions
        return int(answer.offset) if answer.error_code is ErrorCode.none else None

    def _fetched(self, index: int, partition: Partition, offset: int) -> tuple[ErrorCode, list[tuple[int, Any]]]:
        wanted = {
            "partition": index,
            "current_leader_epoch": partition.leader_epoch,
            "fetch_offset": offset,
            "partition_max_bytes": READ_BYTES,
        }
        topic = {"topic": self._name, "partitions": [wanted]}
        request = sparse_request(
            "fetch",
            12,
            replica_id=-1,
            max_wait=10,
            min_bytes=1,
            max_bytes=READ_BYTES,
            session_epoch=-1,
            topics=[topic],
        )
        answer = self._requests.ask(request, partition.leader).responses[0].partitions[0]
        found = [(at, value) for at, value in read_values(answer.records or b"") if at >= offset]
        return answer.error_code, found

    def _read(self, index: int) -> None:
        """Reads the partition from its beginning to its end, and compares."""
        partition = self._leader_of(index)
        begins_at = self._listed(index, partition, EARLIEST)
        ends_at = self._listed(index, partition, LATEST)
        if begins_at is None or ends_at is None:
            return
        found: list[tuple[int, Any]] = []
        position = begins_at
        while position < ends_at:
            error, more = self._fetched(index, partition, position)
            if error is not ErrorCode.none or not more:
                return
            found += more
            position = more[-1][0] + 1
        if self._leader_of(index).leader_epoch != partition.leader_epoch:
            return  # what two leaders say does not have to fit: the later one may not know yet what is committed
        self.counts["read"] += 1
        model = self.model.partitions[index]
        if back := start_problems(model, begins_at, self._crashes_s, DELETION_DURABLE_S):
            self._found(index, back)
        self.problems += self.model.content_problems(index, begins_at, position, found)

    def _delete_records(self, index: int) -> None:
        model = self.model.partitions[index]
        partition = self._leader_of(index)
        if model.end <= model.start_asked:
            return
        offset = self._chance.randint(model.start_asked, model.end)
        model.start_asked = offset
        request = delete_records_request(self._name, offset, partition=index)
        try:
            (answer,) = self._requests.ask(request, partition.leader).topics[0].partitions
        except ConnectionError:
            self.model.unanswered_start = max(offset, self.model.unanswered_start)
            raise
        if answer.error_code is ErrorCode.none:
            model.start, model.start_s = offset, time.monotonic()
            self._look_at_start(index, self._leader_of(index))

    def _look_at_start(self, index: int, partition: Partition) -> None:
        """Sees that what is deleted stays deleted."""
        begins_at = self._listed(index, partition, EARLIEST)
        model = self.model.partitions[index]
        if begins_at is not None and (back := start_problems(model, begins_at, self._crashes_s, DELETION_DURABLE_S)):
            self._found(index, back)

    def _commit(self, index: int) -> None:
        model = self.model.partitions[index]
        offset = self._chance.randint(0, max(model.end, 1)) + 1000 * self.model.life
        broker = self._chance.choice(list(self._requests.addresses))
        self._look_at_topic(broker)
        wanted = {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1}
        topic = {"name": self._name, "partitions": [wanted]}
        request = sparse_request(
            "offset_commit", 8, group_id=self._name, generation_id_or_member_epoch=-1, topics=[topic]
        )
        model.committed_perhaps.add(offset)
        try:
            (answer,) = self._requests.ask(request, broker).topics[0].partitions
        except ConnectionError:
            self.model.unanswered_commits.add(offset)
            raise
        if answer.error_code is ErrorCode.none:
            model.committed = offset
            model.committed_perhaps.clear()
        self._compare_offsets(index)

    def _compare_offsets(self, index: int) -> None:
        """Asks every broker that shows this life of the topic for the committed offset."""
        for broker in self._requests.addresses:
            self._look_at_topic(broker)
            topic = {"name": self._name, "partition_indexes": [index]}
            group = {"group_id": self._name, "topics": [topic]}
            answer = self._requests.ask(sparse_request("offset_fetch", 8, groups=[group]), broker).groups[0]
            if answer.error_code is not ErrorCode.none:
                raise ConnectionError(answer.error_code.name)
            (told,) = answer.topics[0].partitions
            if told.error_code is not ErrorCode.none:
                raise ConnectionError(told.error_code.name)
            self.problems += self.model.offset_problems(index, told.committed_offset, broker)
        self.counts["told offsets"] += 1

    def _move(self, index: int) -> None:
        brokers = list(self._requests.addresses)
        self._requests.reassign(self._name, {index: self._chance.sample(brokers, min(self._factor, len(brokers)))})

    def _add_partition(self, _index: int) -> None:
        count = len(self.model.partitions) + 1
        if count <= PARTITIONS_MAX:
            self._requests.add_partitions(self._name, count)
            self.model.partitions.append(PartitionModel())

    def _found(self, index: int, what: str) -> None:
        self.problems.append(f"{self._name}-{index} in its life {self.model.life} {what}")
