"""A transactional producer of raw requests: ids, epochs and versions are the test's, and nothing is repeated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from ottla_core.wire.records import Record, encode_batch
from tests.support.clients.raw_client import RawClient
from tests.support.clients.right_probes import made
from tests.support.eventually import eventually

PRODUCE, FIND_COORDINATOR = 0, 10
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, WRITE_MARKERS, COMMIT_OFFSETS = 22, 24, 25, 26, 27, 28
NOT_YET = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_enough_replicas,
    }
)
"""What passes by itself."""


def request(api_key: int, version: int, **values: Any) -> Any:
    """A request of any version; messages in it are mappings."""
    return made(load_request_schema(api_key, version), values)


def data_batch(*values: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """A batch of a transaction."""
    records = [Record(delta, 1_700_000_000_000, None, value) for delta, value in enumerate(values)]
    return encode_batch(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )


@dataclass
class RawProducer:
    """Attributes:
    producer_id, epoch: what the coordinator has given; a test may put others in their place.
    sequences: of the next record, by partition.
    """

    client: RawClient
    transactional_id: str
    timeout_s: float = 60.0
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def begin(self) -> None:
        """Find the coordinator, and take the id over."""
        asked = request(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=(self.transactional_id,))
        eventually(lambda: self.client.ask(asked).coordinators[0].error_code == 0, "there is a coordinator")
        eventually(lambda: self.init().error_code == 0, "the producer has an id", within_s=30)

    def init(self, **known: int) -> Any:
        answer = self.client.ask(
            request(
                INIT,
                5,
                transactional_id=self.transactional_id,
                transaction_timeout=i32Timedelta.parse(timedelta(seconds=self.timeout_s)),
                **{"producer_id": -1, "producer_epoch": -1, **known},
            )
        )
        if answer.error_code == ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def add(self, topic: str, *partitions: int) -> set[ErrorCode]:
        """Add partitions, as older clients do."""
        answer = self.client.ask(
            request(
                ADD_PARTITIONS,
                3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=({"name": topic, "partitions": partitions},),
            )
        )
        return {each.partition_error_code for each in answer.results_by_topic_v3_and_below[0].results_by_partition}

    def produce(self, topic: str, partition: int, *values: bytes, version: int = 12) -> ErrorCode:
        """Write one batch; a refused one is not counted."""
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        code = self.write(topic, partition, self.batch(*values, sequence=sequence), version=version)
        if code == ErrorCode.none:
            self.sequences[place] = sequence + len(values)
        return code

    def batch(self, *values: bytes, sequence: int = 0) -> bytes:
        return data_batch(*values, producer_id=self.producer_id, epoch=self.epoch, sequence=sequence)

    def write(self, topic: str, partition: int, batch: bytes, *, version: int = 12) -> ErrorCode:
        data: Mapping[str, Any] = {"name": topic, "partition_data": ({"index": partition, "records": batch},)}
        answer = self.client.ask(
            request(
                PRODUCE,
                version,
                transactional_id=self.transactional_id,
                acks=-1,
                timeout=i32Timedelta.parse(timedelta(seconds=10)),
                topic_data=(data,),
            )
        )
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def end(self, *, commits: bool, version: int = 5) -> Any:
        """End the transaction; from version 5 on the producer goes on with the epoch of the answer."""
        answer = self.client.ask(
            request(
                END,
                version,
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commits,
            )
        )
        if answer.error_code == ErrorCode.none and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int], version: int = 5) -> set[ErrorCode]:
        """Commit a group's offsets in the transaction."""
        answer = self.client.ask(
            request(
                COMMIT_OFFSETS,
                version,
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                generation_id=-1,
                topics=[
                    {
                        "name": topic,
                        "partitions": (
                            {"partition_index": index, "committed_offset": offset, "committed_metadata": ""},
                        ),
                    }
                    for (topic, index), offset in offsets.items()
                ],
            )
        )
        return {each.error_code for topic in answer.topics for each in topic.partitions}


def passing(ask: Any, *, until: ErrorCode = ErrorCode.none) -> ErrorCode:
    """What something is answered, once it is not put off any more."""
    told: list[ErrorCode] = []

    def answered() -> bool:
        code = ask()
        told.append(ErrorCode(getattr(code, "error_code", code)))
        return told[-1] == until or told[-1] not in NOT_YET

    eventually(answered, "the answer is not put off", within_s=30)
    return told[-1]
