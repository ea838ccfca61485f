"""Asks a cluster which partitions a query reads, and which offsets they have.

A broker that was never reached fails the query after `FIRST_ANSWER_MAX_S`, because then an address is likely wrong.
Later, and for anything that may pass, questions are repeated as `fetchOffset.numRetries` and
`fetchOffset.retryIntervalMs` say.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla_sdk import ConnectError
from ottla_spark.datasource.client_options import Settings
from ottla_spark.datasource.described_topics import MISSING, described, replaced_topics
from ottla_spark.datasource.errors import (
    ClusterUnreachable,
    MissingTopic,
    OffsetsUnusable,
    ReadRefused,
    new_client,
)
from ottla_spark.datasource.offsets import EARLIEST, LATEST, Offsets, Partition, TopicIds, named
from ottla_spark.datasource.options import Assigned, Names, Pattern, ReadOptions
from ottla_spark.datasource.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest, Position
from ottla_spark.datasource.refusals import UNREACHABLE, Connections, failure
from ottla_spark.datasource.topic_choice import chosen_topics

log = logging.getLogger(__name__)

FIRST_ANSWER_MAX_S = 10.0
ANSWER_MAX_S = 20.0

NO_OFFSET = -1
EARLIEST_SPEC: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST_SPEC: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

ADMIN_DEFAULTS = {"log_level": 2, "reconnect.backoff.max.ms": 1_000}

NO_IDS: TopicIds = MappingProxyType({})

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a query reads.

    Attributes:
        partitions: those that there are.
        missing: names of topics and partitions that the options name but that do not exist.
        topic_ids: of the topics, as the cluster tells them.
    """

    partitions: frozenset[Partition]
    missing: tuple[str, ...] = ()
    topic_ids: TopicIds = field(default_factory=dict)


class ClusterOffsets:
    """Partitions and offsets of the topics of a query, as the cluster has them now."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client: AdminClient | None = None
        self._was_reached = False
        self._connections = Connections()
        self._lacked: frozenset[str | Partition] = frozenset()
        committed = options.consumer_settings.get("isolation.level") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    @property
    def admin(self) -> AdminClient:
        """The client that asks; made when first needed."""
        if self._client is None:
            self._client = new_client(AdminClient, self._connections.told_by(self._admin_settings))
        return self._client

    def group_client(self) -> AdminClient:
        """Return a new client that asks groups' coordinators; whoever gets it closes it."""
        return new_client(AdminClient, self._admin_settings)

    @property
    def _admin_settings(self) -> Settings:
        return {**ADMIN_DEFAULTS, **self._options.admin_settings}

    def chosen(self, known: Iterable[Partition] = (), topic_ids: TopicIds = NO_IDS) -> Chosen:
        """Return what the query reads; ask again if something lacks, as a broker that has just started may lack it.

        Args:
            known: partitions that there were before.
            topic_ids: those of their topics; a broker that lags may also tell the id of a topic that is gone.

        Raises:
            ClusterUnreachable: nobody answered.
            ReadRefused: a broker refused to.
            ReadFailed: a broker could not answer.
        """
        chosen = self._asked("the partitions", self._chosen)
        for _ in range(self._options.fetch_offset_attempts - 1):
            if self._lacking(chosen, known, topic_ids) <= self._lacked:
                break
            time.sleep(self._options.fetch_offset_pause_ms / 1000)
            chosen = self._asked("the partitions", self._chosen)
        self._lacked = self._lacking(chosen, known, topic_ids)
        return chosen

    def required(self) -> Chosen:
        """Return what the query reads, all of which has to exist.

        Raises:
            MissingTopic: one that the options name does not exist.
        """
        chosen = self.chosen()
        if chosen.missing:
            raise MissingTopic(f"{' and '.join(chosen.missing)} does not exist; create it first, or correct the name")
        return chosen

    def replaced(self, topic_ids: TopicIds) -> frozenset[str]:
        """Return the topics that have another id by now; asks again for those, as a broker may lag."""
        replaced = frozenset(topic_ids)
        for attempt in range(self._options.fetch_offset_attempts):
            if not replaced:
                break
            if attempt:
                time.sleep(self._options.fetch_offset_pause_ms / 1000)
            found = self._asked("the topics", lambda timeout_s: described(self.admin, topic_ids, timeout_s))
            replaced &= replaced_topics(topic_ids, found.ids)
        return replaced

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset of the first record; partitions that no longer exist are left out."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST_SPEC))

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record; partitions that no longer exist are left out."""
        return self._offsets(dict.fromkeys(partitions, LATEST_SPEC))

    def latest_not_before(self, known: Offsets, partitions: frozenset[Partition]) -> dict[Partition, int]:
        """Return the latest offsets; ask again if one lacks or is below what is known, as a new leader may lag."""
        latest = self.latest(partitions)
        for _ in range(self._options.fetch_offset_attempts - 1):
            if all(known.get(each, 0) <= latest.get(each, -1) for each in partitions):
                break
            time.sleep(self._options.fetch_offset_pause_ms / 1000)
            latest = self.latest(partitions)
        return latest

    def at(self, position: Position, partitions: frozenset[Partition], *, is_start: bool) -> dict[Partition, int]:
        """Return the offsets of a position.

        Args:
            position: as the options say it.
            partitions: all that the query reads.
            is_start: whether a timestamp later than all records is an error, as `unmatched_start` says; at
                the end it means the latest offset.

        Raises:
            OffsetsUnusable: the position names other partitions, or no record is as late as a timestamp.
        """
        match position:
            case Earliest():
                return self.earliest(partitions)
            case Latest():
                return self.latest(partitions)
            case AtOffsets(offsets):
                _check_names(offsets, partitions)
                return self._resolved(offsets)
            case AtTimestamps(timestamps_ms):
                _check_names(timestamps_ms, partitions)
                return self._at_timestamps(timestamps_ms, is_start=is_start)
            case AtTimestamp(timestamp_ms):
                return self._at_timestamps(dict.fromkeys(partitions, timestamp_ms), is_start=is_start)

    def first_from(self, time_ms: int, partitions: frozenset[Partition]) -> dict[Partition, int]:
        """Return the offset of the first record of each partition from a time on; the latest if there is none.

        Partitions are left out where brokers cannot tell: they find no records of before 1970, or without a time.
        """
        if time_ms < 0:
            return {}
        found = self._offsets({each: OffsetSpec.for_timestamp(time_ms) for each in partitions})
        return {**found, **self.latest(each for each, offset in found.items() if offset == NO_OFFSET)}

    def close(self) -> None:
        """Give up the connections."""
        self._client = None

    def _resolved(self, offsets: Offsets) -> dict[Partition, int]:
        earliest = self.earliest(partition for partition, offset in offsets.items() if offset == EARLIEST)
        latest = self.latest(partition for partition, offset in offsets.items() if offset == LATEST)
        return {**offsets, **earliest, **latest}

    def _at_timestamps(self, timestamps_ms: Mapping[Partition, int], *, is_start: bool) -> dict[Partition, int]:
        found = self._offsets({each: OffsetSpec.for_timestamp(time_ms) for each, time_ms in timestamps_ms.items()})
        unmatched = [partition for partition, offset in found.items() if offset == NO_OFFSET]
        if unmatched and is_start and self._options.unmatched_start == "error":
            raise OffsetsUnusable(
                f"no record of {named(unmatched)} is as late as the starting timestamp; set "
                "startingOffsetsByTimestampStrategy to latest to start such partitions at their end"
            )
        return {**found, **self.latest(unmatched)}

    def _offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> dict[Partition, int]:
        return self._asked("the offsets", lambda timeout_s: self._listed(wanted, timeout_s)) if wanted else {}

    def _listed(self, wanted: Mapping[Partition, OffsetSpec], timeout_s: float) -> dict[Partition, int]:
        request = {TopicPartition(topic, number): spec for (topic, number), spec in wanted.items()}
        futures = self.admin.list_offsets(request, isolation_level=self._isolation, request_timeout=timeout_s)
        offsets: dict[Partition, int] = {}
        for partition, future in futures.items():
            try:
                offsets[partition.topic, partition.partition] = future.result().offset
            except KafkaException as error:
                if error.args[0].code() != MISSING:
                    raise
        return offsets

    def _chosen(self, timeout_s: float) -> Chosen:
        match self._options.topics:
            case Pattern(regex):
                names = chosen_topics(self.admin.list_topics(timeout=timeout_s).topics, regex)
                existing = described(self.admin, names, timeout_s)
                return Chosen(existing.partitions, topic_ids=existing.ids)
            case Names(names):
                existing = described(self.admin, names, timeout_s)
                missing = sorted(names - {topic for topic, _ in existing.partitions})
                return Chosen(existing.partitions, tuple(f"topic {name}" for name in missing), existing.ids)
            case Assigned(partitions):
                existing = described(self.admin, {topic for topic, _ in partitions}, timeout_s)
                absent = sorted(partitions - existing.partitions)
                return Chosen(
                    partitions & existing.partitions,
                    tuple(f"partition {number} of topic {topic}" for topic, number in absent),
                    existing.ids,
                )

    @staticmethod
    def _lacking(chosen: Chosen, known: Iterable[Partition], topic_ids: TopicIds) -> frozenset[str | Partition]:
        replaced = frozenset(f"the former topic {each}" for each in replaced_topics(topic_ids, chosen.topic_ids))
        return frozenset(chosen.missing) | (frozenset(known) - chosen.partitions) | replaced

    def _asked(self, what: str, ask: Callable[[float], Answer]) -> Answer:
        """Return the answer to a question, which is repeated if that may help."""
        for attempt in range(1, self._options.fetch_offset_attempts + 1):
            try:
                answer = ask(ANSWER_MAX_S if self._was_reached else FIRST_ANSWER_MAX_S)
                self._was_reached = True
                return answer
            except KafkaException as error:
                failure = self._failure(what, error.args[0], is_last=attempt == self._options.fetch_offset_attempts)
                if failure is not None:
                    raise failure from None
            time.sleep(self._options.fetch_offset_pause_ms / 1000)
        raise AssertionError("the last attempt returns or raises")

    def _failure(self, what: str, error: KafkaError, *, is_last: bool) -> ConnectError | None:
        """Return what to raise; None if asking again may help."""
        self.admin.poll(0)  # has librdkafka tell of its connections
        is_away = error.code() in UNREACHABLE
        failed = failure(error, f"cannot find out {what} to read", self._connections)
        if isinstance(failed, ReadRefused) or (is_last and not is_away):
            return failed
        cause = self._connections.problem or error.str()
        if is_away and (is_last or not self._was_reached):
            brokers = self._options.admin_settings.get("bootstrap.servers", "")
            return ClusterUnreachable(f"no broker at {brokers} (kafka.bootstrap.servers) answers: {cause}")
        log.warning("asking for %s to read failed, trying again: %s", what, cause)
        return None


def _check_names(positions: Mapping[Partition, int], partitions: frozenset[Partition]) -> None:
    if positions.keys() == partitions:
        return
    lacking, surplus = partitions - positions.keys(), positions.keys() - partitions
    wrong = [f"{named(lacking)} without a number" if lacking else "", f"no {named(surplus)}" if surplus else ""]
    raise OffsetsUnusable(
        "offsets or timestamps per partition have to name every partition that is read and no others; there is "
        + " and ".join(filter(None, wrong))
        + "; -2 is the earliest offset, -1 the latest"
    )
