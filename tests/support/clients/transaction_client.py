"""A client that speaks of transactions over one connection, request by request, in the version that is asked for.

Each method sends one request and returns what matters of the answer: the names of errors, and what follows from them.
What is refused for reasons that pass (a coordinator that loads, a transaction that is being completed) is asked for
again until `within_s` is over; `settle=False` takes the first answer.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from tests.support.clients.raw_client import ANSWER_DEADLINE_S, Connect, RawClient
from tests.support.messages.record_batches import HEADER_BYTES, batch_of, read_values

TRANSACTIONAL = 0x10
CONTROL = 0x20
COORDINATOR_OF_TRANSACTIONS = 1
COORDINATOR_OF_GROUPS = 0
ALL_IN_SYNC = -1
READ_COMMITTED = 1
PASSING = frozenset(
    {"coordinator_load_in_progress", "coordinator_not_available", "not_coordinator", "concurrent_transactions"}
)
REPEAT_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Producer:
    """What InitProducerId or EndTxn has given a transactional producer."""

    id: int
    epoch: int

    def later(self, epochs: int = 1) -> "Producer":
        return replace(self, epoch=self.epoch + epochs)


def milliseconds(value: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=value))


def message(api: str, version: int, name: str, /, **fields: Any) -> Any:
    """A request of an API, or a part of one; fields that the version does not have are left out."""
    cls = getattr(import_module(f"kio.schema.{api}.v{version}.request"), name)
    return cls(**{key: value for key, value in fields.items() if key in cls.__dataclass_fields__})


class TransactionClient:
    """One connection to a broker.

    Attributes:
        raw: the connection.
        within_s: how long passing errors may last.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        within_s: float = 30.0,
        answer_within_s: float = ANSWER_DEADLINE_S,
        connect: Connect = RawClient.to,
    ):
        self.raw = connect(bootstrap, within_s=answer_within_s)
        self.within_s = within_s

    def __enter__(self) -> "TransactionClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def settled(self, ask: Callable[[], Any], errors: Callable[[Any], Sequence[str]], *, settle: bool = True) -> Any:
        """Asks until none of an answer's errors is one that passes."""
        deadline = time.monotonic() + self.within_s
        while True:
            answer = ask()
            if not settle or PASSING.isdisjoint(errors(answer)) or time.monotonic() > deadline:
                return answer
            time.sleep(REPEAT_PAUSE_S)  # between two requests; the deadline ends them

    def find(self, key: str, kind: int = COORDINATOR_OF_TRANSACTIONS) -> str:
        """Has a coordinator looked for, which has its topic created; returns the error."""
        request = message("find_coordinator", 4, "FindCoordinatorRequest", key_type=kind, coordinator_keys=(key,))

        def errors(answer: Any) -> list[str]:
            return [each.error_code.name for each in answer.coordinators]

        return errors(self.settled(lambda: self.raw.ask(request), errors))[0]

    def init(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int = 60_000,
        producer: Producer | None = None,
        version: int = 5,
        settle: bool = True,
        **more: Any,
    ) -> tuple[str, Producer]:
        """InitProducerId."""
        request = message(
            "init_producer_id",
            version,
            "InitProducerIdRequest",
            transactional_id=transactional_id,
            transaction_timeout=milliseconds(timeout_ms),
            producer_id=-1 if producer is None else producer.id,
            producer_epoch=-1 if producer is None else producer.epoch,
            **more,
        )
        answer = self.settled(lambda: self.raw.ask(request), lambda each: [each.error_code.name], settle=settle)
        return answer.error_code.name, Producer(answer.producer_id, answer.producer_epoch)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Mapping[str, Sequence[int]],
        *,
        settle: bool = True,
    ) -> dict[str, list[str]]:
        """AddPartitionsToTxn as clients send it: errors by topic, in the order of partitions."""
        topics = tuple(
            message("add_partitions_to_txn", 3, "AddPartitionsToTxnTopic", name=name, partitions=tuple(indexes))
            for name, indexes in partitions.items()
        )
        request = message(
            "add_partitions_to_txn",
            3,
            "AddPartitionsToTxnRequest",
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )

        def told(answer: Any) -> dict[str, list[str]]:
            return {
                topic.name: [
                    each.partition_error_code.name
                    for each in sorted(topic.results_by_partition, key=lambda each: each.partition_index)
                ]
                for topic in answer.results_by_topic_v3_and_below
            }

        def errors(answer: Any) -> list[str]:
            return [code for codes in told(answer).values() for code in codes]

        return told(self.settled(lambda: self.raw.ask(request), errors, settle=settle))

    def produce(
        self,
        transactional_id: str | None,
        producer: Producer,
        topic: str,
        values: Sequence[bytes],
        *,
        sequence: int = 0,
        partition: int = 0,
        version: int = 12,
        transactional: bool = True,
        settle: bool = True,
    ) -> str:
        """One batch of values; returns the error."""
        now_ms = int(time.time() * 1000)  # records from long ago would roll the segment
        batch = replace(
            batch_of(list(values)),
            base_timestamp_ms=now_ms,
            max_timestamp_ms=now_ms,
            attributes=TRANSACTIONAL if transactional else 0,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
        )
        data = message("produce", version, "PartitionProduceData", index=partition, records=batch.encode())
        request = message(
            "produce",
            version,
            "ProduceRequest",
            transactional_id=transactional_id,
            acks=ALL_IN_SYNC,
            timeout=milliseconds(10_000),
            topic_data=(message("produce", version, "TopicProduceData", name=topic, partition_data=(data,)),),
        )

        def errors(answer: Any) -> list[str]:
            return [part.error_code.name for each in answer.responses for part in each.partition_responses]

        return errors(self.settled(lambda: self.raw.ask(request), errors, settle=settle))[0]

    def end(
        self, transactional_id: str, producer: Producer, *, commit: bool, version: int = 5, settle: bool = True
    ) -> tuple[str, Producer]:
        """EndTxn; the producer is what the next transaction goes by."""
        request = message(
            "end_txn",
            version,
            "EndTxnRequest",
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self.settled(lambda: self.raw.ask(request), lambda each: [each.error_code.name], settle=settle)
        if version < 5 or answer.producer_id < 0:
            return answer.error_code.name, producer
        return answer.error_code.name, Producer(answer.producer_id, answer.producer_epoch)

    def add_offsets(self, transactional_id: str, producer: Producer, group: str) -> str:
        """AddOffsetsToTxn."""
        request = message(
            "add_offsets_to_txn",
            3,
            "AddOffsetsToTxnRequest",
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        return str(self.settled(lambda: self.raw.ask(request), lambda each: [each.error_code.name]).error_code.name)

    def commit_offset(
        self,
        transactional_id: str,
        producer: Producer,
        group: str,
        topic: str,
        offset: int,
        *,
        version: int = 5,
        generation: int = -1,
        member: str = "",
        partition: int = 0,
        settle: bool = True,
    ) -> str:
        """TxnOffsetCommit of one partition."""
        api = "txn_offset_commit"
        offsets = message(
            api,
            version,
            "TxnOffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        request = message(
            api,
            version,
            "TxnOffsetCommitRequest",
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id=generation,
            member_id=member,
            group_instance_id=None,
            topics=(message(api, version, "TxnOffsetCommitRequestTopic", name=topic, partitions=(offsets,)),),
        )

        def errors(answer: Any) -> list[str]:
            return [part.error_code.name for each in answer.topics for part in each.partitions]

        return errors(self.settled(lambda: self.raw.ask(request), errors, settle=settle))[0]

    def committed_offset(self, group: str, topic: str, *, stable: bool, partition: int = 0) -> tuple[str, int]:
        """OffsetFetch of one partition."""
        api = "offset_fetch"
        topics = (message(api, 8, "OffsetFetchRequestTopics", name=topic, partition_indexes=(partition,)),)
        request = message(
            api,
            8,
            "OffsetFetchRequest",
            groups=(message(api, 8, "OffsetFetchRequestGroup", group_id=group, topics=topics),),
            require_stable=stable,
        )

        def errors(answer: Any) -> list[str]:
            return [each.error_code.name for each in answer.groups]

        (found,) = self.settled(lambda: self.raw.ask(request), errors).groups
        if found.error_code.name != "none":
            return found.error_code.name, -1
        ((part,),) = (each.partitions for each in found.topics)
        return part.error_code.name, part.committed_offset

    def read(self, topic: str, *, committed: bool, partition: int = 0) -> dict[str, Any]:
        """What a consumer sees of a partition: offsets and values, both ends, aborted producers."""
        part = self._fetch(topic, partition, 0, committed=committed)
        aborted = _aborted(part)
        return {
            "error": part.error_code.name,
            "records": visible_values(bytes(part.records or b""), aborted if committed else []),
            "high watermark": part.high_watermark,
            "last stable offset": part.last_stable_offset,
            "aborted": aborted,
        }

    def read_committed(self, topic: str, partition: int, offset: int) -> tuple[str, list[tuple[int, bytes]], int]:
        """Some committed records from an offset on: the error, offsets and values, and where to go on.

        There may be nothing but markers, in which case there are no records, and yet another offset to go on at.
        """
        part = self._fetch(topic, partition, offset, committed=True)
        records = bytes(part.records or b"")
        values = [each for each in visible_values(records, _aborted(part)) if each[0] >= offset]
        return part.error_code.name, values, max(offset, end_of_batches(records))

    def _fetch(self, topic: str, partition: int, offset: int, *, committed: bool) -> Any:
        """The one partition of an answer to Fetch."""
        wanted = message(
            "fetch", 12, "FetchPartition", partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = message(
            "fetch",
            12,
            "FetchRequest",
            max_wait=milliseconds(200),
            min_bytes=1,
            isolation_level=READ_COMMITTED if committed else 0,
            topics=(message("fetch", 12, "FetchTopic", topic=topic, partitions=(wanted,)),),
            forgotten_topics_data=(),
        )
        ((part,),) = (each.partitions for each in self.raw.ask(request).responses)
        return part

    def end_offset(self, topic: str, *, committed: bool, partition: int = 0) -> tuple[str, int]:
        """ListOffsets of the latest."""
        wanted = message("list_offsets", 7, "ListOffsetsPartition", partition_index=partition, timestamp=-1)
        request = message(
            "list_offsets",
            7,
            "ListOffsetsRequest",
            replica_id=-1,
            isolation_level=READ_COMMITTED if committed else 0,
            topics=(message("list_offsets", 7, "ListOffsetsTopic", name=topic, partitions=(wanted,)),),
        )
        ((part,),) = (each.partitions for each in self.raw.ask(request).topics)
        return part.error_code.name, part.offset

    def describe(self, transactional_id: str) -> dict[str, Any]:
        """DescribeTransactions of one."""
        request = message(
            "describe_transactions", 0, "DescribeTransactionsRequest", transactional_ids=(transactional_id,)
        )

        def ask() -> dict[str, Any]:
            self.raw.send_request(request)
            return read_described(self.raw.read_frame())

        found: dict[str, Any] = self.settled(ask, lambda answer: [answer["error"]])
        return found

    def list_transactions(self, **filters: Any) -> tuple[str, list[tuple[str, str]]]:
        """ListTransactions: ids and states, and the states that are unknown."""
        request = message("list_transactions", 2, "ListTransactionsRequest", **filters)
        answer = self.settled(lambda: self.raw.ask(request), lambda each: [each.error_code.name])
        found = sorted((each.transactional_id, each.transaction_state) for each in answer.transaction_states)
        return answer.error_code.name, found

    def write_marker(
        self, producer: Producer, topic: str, *, commit: bool, coordinator_epoch: int = 0, partition: int = 0
    ) -> str:
        """WriteTxnMarkers, as a coordinator or a tool sends it."""
        api = "write_txn_markers"
        marker = message(
            api,
            1,
            "WritableTxnMarker",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_result=commit,
            topics=(message(api, 1, "WritableTxnMarkerTopic", name=topic, partition_indexes=(partition,)),),
            coordinator_epoch=coordinator_epoch,
        )
        answer = self.raw.ask(message(api, 1, "WriteTxnMarkersRequest", markers=(marker,)))
        ((part,),) = (topic.partitions for each in answer.markers for topic in each.topics)
        return str(part.error_code.name)

    def producers(self, topic: str, *, partition: int = 0) -> list[dict[str, Any]]:
        """DescribeProducers of one partition."""
        api = "describe_producers"
        request = message(
            api,
            0,
            "DescribeProducersRequest",
            topics=(message(api, 0, "TopicRequest", name=topic, partition_indexes=(partition,)),),
        )
        ((part,),) = (each.partitions for each in self.raw.ask(request).topics)
        return [
            {
                "producer": Producer(each.producer_id, each.producer_epoch),
                "last sequence": each.last_sequence,
                "transaction begins at": each.current_txn_start_offset,
            }
            for each in part.active_producers
        ]


def read_described(payload: bytes) -> dict[str, Any]:
    """The one transaction of a DescribeTransactions response; kio knows no time of -1, which stands for none."""
    position = 4 + 1 + 4  # correlation id, tagged fields, throttle time
    assert payload[position] == 2, "an array of one"
    position += 1

    def number(size: int) -> int:
        nonlocal position
        position += size
        return int.from_bytes(payload[position - size : position], signed=True)

    def text() -> str:
        nonlocal position
        length = number(1) - 1  # of what tests name: short
        position += length
        return payload[position - length : position].decode()

    found: dict[str, Any] = {"error": ErrorCode(number(2)).name}
    found["id"], found["state"] = text(), text()
    found["timeout"], found["has begun"] = number(4), number(8) >= 0
    found["producer"] = Producer(number(8), number(2))
    topics = []
    for _ in range(number(1) - 1):
        name = text()
        topics.append((name, tuple(sorted(number(4) for _ in range(number(1) - 1)))))
        number(1)
    found["partitions"] = sorted(topics)
    return found


def _aborted(part: Any) -> list[tuple[int, int]]:
    return sorted((each.producer_id, each.first_offset) for each in part.aborted_transactions or ())


def end_of_batches(records: bytes) -> int:
    """The offset behind all whole batches, markers among them; -1 if there are none."""
    end = -1
    position = 0
    while position + HEADER_BYTES <= len(records):
        size = int.from_bytes(records[position + 8 : position + 12]) + 12
        if position + size > len(records):
            break
        base_offset = int.from_bytes(records[position : position + 8], signed=True)
        end = base_offset + int.from_bytes(records[position + 23 : position + 27]) + 1
        position += size
    return end


def visible_values(records: bytes, aborted: Sequence[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """The values that a consumer hands on: no markers, and nothing of what is aborted. Source: Kafka's Fetcher."""
    waiting = sorted(aborted, key=lambda each: each[1])
    ongoing: set[int] = set()
    values: list[tuple[int, bytes]] = []
    position = 0
    while position < len(records):
        base_offset = int.from_bytes(records[position : position + 8], signed=True)
        size = int.from_bytes(records[position + 8 : position + 12]) + 12
        batch = records[position : position + size]
        attributes = int.from_bytes(batch[21:23])
        last_offset = base_offset + int.from_bytes(batch[23:27])
        producer_id = int.from_bytes(batch[43:51], signed=True)
        while waiting and waiting[0][1] <= last_offset:
            ongoing.add(waiting.pop(0)[0])
        if attributes & CONTROL:
            ongoing.discard(producer_id)
        elif not (attributes & TRANSACTIONAL and producer_id in ongoing):
            values += read_values(batch)
        position += size
    return values
