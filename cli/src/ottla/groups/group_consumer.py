"""Reading topics as a member of a group, for `ottla consume --group`.

An offset is committed only after its record has been written to standard output, so that what is not there is read
again by whoever gets the partition next: at least once. librdkafka does the committing: at intervals, when a
partition is taken away, and at the end, always up to the offset that was stored with it last.

The first Ctrl-C, or SIGTERM, is a wish that is heard between two batches, since librdkafka's callbacks cannot bear an
exception; the second ends the process at once.
"""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from ottla.kafka_client import close
from ottla.output import note
from ottla_operations.errors import OperationError
from ottla_operations.interruptible import interruptible
from ottla_operations.kafka_access import describe_error

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

BATCH_RECORDS_MAX = 1_000
POLL_S = 0.05
FIRST_PARTITION_WAIT_S = 30.0
TOLD_AFTER_S = 4.0
COORDINATOR_WITHIN_S = 5.0
COMMIT_WITHIN_S = 2.0

Partition = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """How a member presents itself to its group.

    Attributes:
        protocol: ``classic`` or ``consumer``.
        instance_id: what makes it a static member, or None.
        commit_interval_s: seconds between commits.
        reset: where to begin without a committed offset, ``earliest`` or ``latest``.
        follow: whether to go on at the end of the partitions.
    """

    group: str
    protocol: str
    instance_id: str | None
    commit_interval_s: float
    reset: str
    follow: bool

    def settings(self) -> dict[str, Any]:
        """Return librdkafka's settings."""
        settings: dict[str, Any] = {
            "group.id": self.group,
            "group.protocol": self.protocol,
            "enable.auto.commit": True,
            "auto.commit.interval.ms": max(1, round(self.commit_interval_s * 1000)),
            "enable.auto.offset.store": False,
            "enable.partition.eof": not self.follow,
            "auto.offset.reset": self.reset,
        }
        return settings if self.instance_id is None else {**settings, "group.instance.id": self.instance_id}


class GroupConsumer:
    """A consumer that is subscribed, and how far it has come in the partitions it owns.

    Attributes:
        is_behind: whether, when it left, offsets of printed records were not committed, or not known to be.
    """

    def __init__(self, consumer: "Consumer", membership: Membership, topics: Sequence[str], bootstrap: str) -> None:
        self.is_behind = False
        self._consumer = consumer
        self._membership = membership
        self._bootstrap = bootstrap
        self._ended: dict[Partition, bool] = {}
        self._topics = topics
        self._is_interrupted = False
        self._is_wait_told = False
        self._give_up_s = time.monotonic() + FIRST_PARTITION_WAIT_S
        consumer.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._taken_away, on_lost=self._taken_away
        )

    def run(
        self, print_records: Callable[[list["Message"], int | None], tuple[int, int]], *, count: int | None
    ) -> None:
        """Read until `count` were printed, the ends of all own partitions (unless it follows), or an interrupt.

        Raises:
            OperationError: the group refuses this member, or a partition cannot be read.
            KeyboardInterrupt: it was interrupted before it had read all.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupted)
        remaining = count
        while remaining != 0 and not self._is_finished():
            if self._is_interrupted:
                if not self._membership.follow:
                    raise KeyboardInterrupt
                return
            wanted = BATCH_RECORDS_MAX if remaining is None else min(remaining, BATCH_RECORDS_MAX)
            records = [message for message in self._consumer.consume(wanted, POLL_S) if self._is_record(message)]
            if not records:
                continue
            looked_at, printed = print_records(records, remaining)
            self._store(records[:looked_at])
            if remaining is not None:
                remaining -= printed

    def leave(self) -> None:
        """Commit what was printed and leave the group; a commit that fails is reported, not raised."""
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        try:
            # A cluster that stands still must not keep the command from ending.
            answered = interruptible(lambda: self._consumer.commit(asynchronous=False), within_s=COMMIT_WITHIN_S)
            problems = [each.error for each in answered or () if each.error is not None]
        except KafkaException as exception:
            error = exception.args[0]
            told_already = (KafkaError._NO_OFFSET, KafkaError._FATAL)  # noqa: SLF001 - public names
            problems = [] if error.code() in told_already else [error]
        except TimeoutError:
            problems = []
            self.is_behind = True
            note(f"ottla: the cluster did not answer within {COMMIT_WITHIN_S:.0f} s: records may be read again")
        for problem in problems[:1]:
            reason = describe_error(problem, self._bootstrap)
            self.is_behind = True
            note(f"ottla: the last offsets were not committed, so their records will be read again: {reason}")
        close(self._consumer)

    def _interrupted(self, number: int, _frame: FrameType | None) -> None:
        self._is_interrupted = True
        signal.signal(number, signal.default_int_handler)

    def _is_finished(self) -> bool:
        if self._membership.follow:
            return False
        if self._ended:
            return all(self._ended.values())
        now_s = time.monotonic()
        if now_s < self._give_up_s:
            if not self._is_wait_told and now_s > self._give_up_s - FIRST_PARTITION_WAIT_S + TOLD_AFTER_S:
                self._is_wait_told = True
                note(f"ottla: group {self._membership.group} has given this member no partition so far; waiting …")
            return False
        self._check_coordinator()
        note(f"ottla: group {self._membership.group} has no partition left for this member")
        return True

    def _check_coordinator(self) -> None:
        """See that the group's coordinator answers, without which there would be no partitions either.

        Raises:
            OperationError: it does not.
        """
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        try:
            self._consumer.committed([TopicPartition(self._topics[0], 0)], COORDINATOR_WITHIN_S)
        except KafkaException as exception:
            reason = describe_error(exception.args[0], self._bootstrap)
            raise OperationError(f"the coordinator of group {self._membership.group} is away: {reason}") from None

    def _is_record(self, message: "Message") -> bool:
        from confluent_kafka import KafkaError  # noqa: PLC0415

        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name
            place = (message.topic(), message.partition())
            if place in self._ended:
                self._ended[place] = True
            return False
        # Whoever reads our output may have paused for long; librdkafka joins again by itself.
        paused = error.code() == KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001 - a public name
        if paused or (error.retriable() and not error.fatal()):
            return False
        raise OperationError(describe_error(error, self._bootstrap, f"group {self._membership.group}"))

    def _store(self, records: Sequence["Message"]) -> None:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition  # noqa: PLC0415

        reached = {(each.topic(), each.partition()): each for each in records}
        for (topic, partition), last in reached.items():
            assert topic is not None
            assert partition is not None
            position = TopicPartition(
                topic, partition, (last.offset() or 0) + 1, leader_epoch=last.leader_epoch() or -1
            )
            try:
                self._consumer.store_offsets(offsets=[position])
            except KafkaException as exception:
                # It was taken away while we wrote; its next owner reads these records again.
                if exception.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a public name
                    raise

    def _assigned(self, _consumer: "Consumer", partitions: list["TopicPartition"]) -> None:
        self._ended.update({(each.topic, each.partition): False for each in partitions})

    def _taken_away(self, _consumer: "Consumer", partitions: list["TopicPartition"]) -> None:
        for each in partitions:
            self._ended.pop((each.topic, each.partition), None)
        self._give_up_s = time.monotonic() + FIRST_PARTITION_WAIT_S
