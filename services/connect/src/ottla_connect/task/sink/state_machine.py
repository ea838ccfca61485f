"""A sink task's work as a state machine: no I/O, no clock, no client; events and times go in, actions come out. Pure.

Records go one way, and offsets follow them:

    Read -> Convert -> Put -> (in the sink) -> PreCommit -> SettleReports -> CommitOffsets -> (committed)
      |                 ^ |
      v                 | v
    held back ----------+ redelivered, until the task takes the batch

- Only what the task has said to be safe is committed (`PreCommit`), up to the last record put, and never without a
  lease. So after a crash some records come again, and none is missed.
- Before partitions are given away they are committed. What was read of them and is not in the sink is forgotten:
  their next owner reads it.
- While a batch waits to be put again, and while the task is paused, its partitions are paused. Reading goes on, which
  keeps the task in its group; what arrives nevertheless is held back.
- A position that the task asks for (`task_seeks`) counts at once, before the consumer goes there: no commit, and no
  answer to a commit from before, leads behind it.

The task calls the machine's `task_…` methods from within the actions that call it (`OpenPartitions`, `Put`,
`PreCommit`, …), and the consumer reports rebalances from within `Read`. Each method changes the state and returns
before anything else is called, so such calls find a state that is whole.

Source: WorkerSinkTask in Kafka.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from ottla_connect.task.sink.actions import (
    Action,
    CloseConsumer,
    ClosePartitions,
    CommitOffsets,
    Convert,
    IdentifyTopics,
    LeaveGroup,
    Moment,
    OpenPartitions,
    Pause,
    PreCommit,
    Put,
    Read,
    Resume,
    Seek,
    SettleReports,
    SinkSettings,
    StopTask,
    TellCommitFailed,
    TellCommitLate,
    TellCommitted,
    TellPaused,
    TellRetry,
    TellRunning,
    Warn,
)
from ottla_connect.task.sink.commit_schedule import CommitSchedule
from ottla_connect.task.sink.positions import Positions
from ottla_connect.task.sink.redelivery import Redelivery
from ottla_connect.task.sink.topic_check import TopicCheck
from ottla_sdk import ConnectError, SinkRecord, TopicPartition

READ_WAIT_S = 0.25
"""How long a read waits for records, and so how soon a task hears that it is to stop."""
LEASE_WAIT_S = 1.0


class Placed(Protocol):
    """A message, as far as it matters here."""

    def topic(self) -> str | None:
        """Return its topic."""

    def partition(self) -> int | None:
        """Return the number of its partition."""


MessageT = TypeVar("MessageT", bound=Placed)


class SinkStateMachine(Generic[MessageT]):
    """One sink task's work, from its start to its end.

    Each turn of the loop is `stand_by` while there is no lease, else `work`, `tick` and `proceed`; the last is `end`.
    """

    def __init__(self, settings: SinkSettings, now: Moment) -> None:
        self._settings = settings
        self._positions = Positions()
        self._redelivery = Redelivery()
        self._topics = TopicCheck(interval_s=settings.flush_interval_s)
        self._schedule = CommitSchedule(
            interval_s=settings.flush_interval_s, timeout_s=settings.flush_timeout_s, now_s=now.now_s
        )
        self._held: list[MessageT] = []
        self._seeks: dict[TopicPartition, int] = {}  # that the consumer has not heard of
        self._paused_by_task: set[TopicPartition] = set()
        self._paused = False
        self._standing_by = False
        self._asked_pause_s: float | None = None

    # What the shell asks.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the task has."""
        return self._positions.assigned

    def must_pause(self, partition: TopicPartition) -> bool:
        """Return whether a partition that was just assigned is not to be read yet."""
        return self._paused or bool(self._redelivery) or partition in self._paused_by_task

    def take_new_topics(self) -> list[str]:
        """Return the topics of which a record was read for the first time since the last call."""
        return self._positions.take_new_topics()

    # What happens. Every method returns what is to be done, if anything. First the loop's turns.

    def stand_by(self) -> list[Action]:
        """There is no lease: another worker may run the task, and a member that does not read holds all others up."""
        actions: list[Action] = []
        if not self._standing_by:
            self._standing_by = True
            actions.append(LeaveGroup())
        # What is read until the partitions are given away is forgotten with them, as nothing is committed then.
        return [*actions, Read(count_max=1, timeout_s=LEASE_WAIT_S)]

    def work(self, now: Moment, *, paused: bool) -> list[Action]:
        """The task may work, or is to be in its group without putting anything."""
        self._standing_by = False
        if paused == self._paused:
            return []
        self._paused = paused
        if paused:
            return [
                Pause(partitions=self.assignment),
                *self._commit(self.assignment, now, closing=False),
                TellPaused(),
            ]
        return [*self._resume_all(), TellRunning()]

    def tick(self, now: Moment) -> list[Action]:
        """Time has passed."""
        actions = self._check_topics(now)
        if self._schedule.give_up_late(now.now_s):
            actions.append(TellCommitLate(timeout_s=self._schedule.timeout_s))
        if self._schedule.is_due(now.now_s):
            actions += self._commit(self.assignment, now, closing=False)
        return actions

    def proceed(self, now: Moment) -> list[Action]:
        """Go where the task has asked to go on, and take the next records from there."""
        wanted, self._seeks = self._seeks, {}
        actions = self._go_to(wanted)
        if self._paused:
            actions.append(Read(count_max=1, timeout_s=READ_WAIT_S))
        elif self._redelivery:
            left_s = max(self._redelivery.due_s - now.now_s, 0.0)
            actions.append(Read(count_max=1, timeout_s=min(left_s, READ_WAIT_S)))
        elif self._held:
            held, self._held = self._held, []
            actions.append(Convert(messages=held))
        else:
            actions.append(Read(count_max=self._settings.poll_records_max, timeout_s=READ_WAIT_S))
        return actions

    def end(self, now: Moment) -> list[Action]:
        """The task stops, or has failed; each of these is to be done even if one before it fails."""
        partitions = sorted(self.assignment)
        if not partitions:
            return [StopTask(), CloseConsumer()]
        commit = self._commit(partitions, now, closing=True)
        return [*commit, ClosePartitions(partitions=partitions), StopTask(), CloseConsumer()]

    # The way of the records.

    def messages_read(self, messages: Sequence[MessageT], now: Moment) -> list[Action]:
        """Messages were read, all of them of partitions that the task has now."""
        if self._seeks:  # the task has sought from within the read, in a rebalance: all this is of where it was
            self._redelivery.drop(self._seeks)
            messages = [each for each in messages if (each.topic(), each.partition()) not in self._seeks]
        if self._standing_by or self._paused:
            self._held += messages
            return []
        if self._redelivery:
            self._held += messages
            return self._redeliver(now)
        return [Convert(messages=messages)]

    def read(self, topic: str, partitions: Sequence[int], offsets: Sequence[int]) -> None:
        """Records of a topic are made of messages of these partitions and offsets, in this order."""
        self._positions.read(topic, partitions, offsets)

    def converted(self, records: list[SinkRecord], now: Moment) -> list[Action]:
        """These are the records of what was read last; messages that were dropped have none."""
        if now.leased:
            return [Put(records=records)]
        # It ran out while records were converted.
        self._redelivery.keep(records, now.now_s, 0.0)
        return [Pause(partitions=self.assignment)]

    def put_succeeded(self) -> list[Action]:
        """The task has taken the records."""
        self._asked_pause_s = None
        self._positions.put()
        if not self._redelivery:
            return []
        self._redelivery.done()
        return self._resume_all()

    def put_failed(self, records: list[SinkRecord], reason: str, now: Moment) -> list[Action]:
        """The task cannot take the records now."""
        actions: list[Action] = []
        if not self._redelivery:
            actions.append(Pause(partitions=self.assignment))
        self._redelivery.keep(records, now.now_s, self._asked_pause_s)
        self._asked_pause_s = None
        pause_s = self._redelivery.due_s - now.now_s
        return [*actions, TellRetry(record_count=len(records), reason=reason, pause_s=pause_s)]

    # The way of the offsets.

    def pre_commit_answered(self, asked: PreCommit, allowed: Mapping[TopicPartition, int]) -> list[Action]:
        """The task has said up to where records are safe."""
        return [SettleReports(asked=asked, allowed=allowed)]

    def pre_commit_failed(self, asked: PreCommit) -> list[Action]:
        """The task cannot make records safe now: it gets them again, from the last commit on."""
        if asked.closing:
            return []  # whoever has the partitions next begins there
        self._redelivery.done()
        actions = self._go_to(self._positions.rewind())
        return actions if self._paused else [*actions, *self._resume_all()]

    def reports_settled(self, settled: SettleReports, now: Moment) -> list[Action]:
        """No report of the task stands against a commit."""
        asked = settled.asked
        # The task may have sought while it was asked: what it gets again is not safe.
        present = self._positions.offered(asked.partitions)
        allowed = {
            place: offset
            for place, offset in settled.allowed.items()
            if present.get(place) == asked.offered.get(place)
        }
        offsets, refused = self._positions.to_commit(asked.offered, allowed)
        actions: list[Action] = [
            Warn(message=f"the task wants to commit what it must not: {each}") for each in refused
        ]
        # The lease may have run out while the task was asked.
        if offsets and now.leased:
            self._positions.sent(offsets)
            metadata = {each: self._topics.metadata(each) for each in offsets}
            actions.append(
                CommitOffsets(offsets=offsets, metadata=metadata, wait=asked.closing, began_s=asked.began_s)
            )
        return actions

    def commit_sent(self, commit: CommitOffsets, now: Moment) -> list[Action]:
        """The consumer has taken a commit, and if that was to be waited for, its offsets are committed."""
        if commit.wait:
            return self._committed(commit.offsets, commit.began_s, now)
        self._schedule.sent(commit.began_s)
        return []

    def commit_refused(self, reason: str) -> list[Action]:
        """The consumer has not taken a commit, or the one that it was to wait for has failed."""
        return [TellCommitFailed(reason=reason)]

    def commit_answered(
        self, offsets: Mapping[TopicPartition, int], failure: str | None, now: Moment
    ) -> list[Action]:
        """A commit that was not waited for has succeeded, or failed."""
        began_s = self._schedule.answered()
        if began_s is None:
            return []
        if failure is not None:
            return [TellCommitFailed(reason=failure)]
        return self._committed(offsets, began_s, now)

    # The group's rebalances.

    def assigned(self, partitions: Sequence[TopicPartition]) -> list[Action]:
        """The task has these too now; after what is to be done, `beginnings` says where they are read from."""
        self._positions.assign(partitions)
        return [IdentifyTopics(partitions=partitions)] if partitions else []

    def identified(
        self,
        partitions: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, str | None],
        found: Mapping[str, str | None],
    ) -> list[Action]:
        """It is known of which topics assigned partitions are, and of which their last commits."""
        anew = self._topics.assigned(committed, found)
        self._seeks.update(dict.fromkeys(anew, 0))
        return [*_created_anew(anew), OpenPartitions(partitions=partitions)]

    def beginnings(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions that were just assigned are read from, if not from their last commit."""
        wanted = {each: self._seeks.pop(each) for each in partitions if each in self._seeks}
        for each, offset in wanted.items():
            self._positions.move(each, offset)
        return wanted

    def revoked(self, partitions: Sequence[TopicPartition], now: Moment, *, lost: bool) -> list[Action]:
        """The task is to give these away, and then to call `given_away`; if they are lost, others may have them."""
        return [] if lost else self._commit(partitions, now, closing=True)

    def given_away(self, partitions: Sequence[TopicPartition]) -> list[Action]:
        """The task has these no longer, whether or not they could be committed."""
        self._topics.revoked(partitions)
        self._positions.revoke(partitions)
        self._redelivery.drop(partitions)
        self._drop_held(partitions)
        self._paused_by_task.difference_update(partitions)
        self._seeks = {place: offset for place, offset in self._seeks.items() if place not in partitions}
        return [ClosePartitions(partitions=partitions)]

    def topic_ids_found(self, ticket: int, found: Mapping[str, str | None]) -> None:
        """The cluster has said which ids topics have; empty if it does not answer."""
        self._topics.answered(ticket, found)

    # What the plugin's task asks for.

    def task_seeks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading there, from the next read on.

        Raises:
            ConnectError: the task does not have one of these partitions.
        """
        # Where another task goes on meanwhile, an offset of now would lead behind records that nobody has read.
        self._demand("sought in", offsets)
        self._seeks.update(offsets)
        for place, offset in offsets.items():
            # Not only with the read: a commit before that must not be of what the task has asked for again.
            self._positions.move(place, offset)

    def task_pauses(self, partitions: Collection[TopicPartition]) -> list[Action]:
        """Read no more of these.

        Raises:
            ConnectError: the task does not have one of these partitions.
        """
        self._demand("paused", partitions)
        self._paused_by_task.update(partitions)
        return [Pause(partitions=partitions)]

    def task_resumes(self, partitions: Collection[TopicPartition]) -> list[Action]:
        """Read of these again, when it is time for any."""
        self._paused_by_task.difference_update(partitions)
        return [] if self._paused or self._redelivery else [Resume(partitions=partitions)]

    def task_retries_in(self, pause_s: float) -> None:
        """Try the next failed `put` again after this time."""
        self._asked_pause_s = pause_s

    def task_asks_to_commit(self) -> None:
        """Commit before the next read."""
        self._schedule.ask()

    # What follows.

    def _demand(self, done: str, partitions: Iterable[TopicPartition]) -> None:
        """Raise an error unless the task has these, as Kafka's WorkerSinkTaskContext and consumer do."""
        if others := sorted(set(partitions) - self.assignment):
            names = ", ".join(f"{each.topic}-{each.partition}" for each in others)
            raise ConnectError(f"{names} cannot be {done}: the task does not have it now (see context.assignment)")

    def _commit(self, partitions: Collection[TopicPartition], now: Moment, *, closing: bool) -> list[Action]:
        offered = self._positions.offered(partitions)
        if not closing:
            self._schedule.begin(now.now_s, has_offsets=bool(offered))
        if not now.leased or not offered:
            return []
        return [PreCommit(offered=offered, partitions=partitions, closing=closing, began_s=now.now_s)]

    def _committed(self, offsets: Mapping[TopicPartition, int], began_s: float, now: Moment) -> list[Action]:
        self._positions.committed(offsets)
        return [TellCommitted(took_s=now.now_s - began_s)]

    def _check_topics(self, now: Moment) -> list[Action]:
        """Begin topics at their start that were created anew, when what was read of the former ones is put."""
        if self._redelivery or self._held:
            return []
        anew = self._topics.created_anew(now.now_s, self.assignment)
        actions = [*_created_anew(anew), *self._go_to(dict.fromkeys(anew, 0))]
        question = self._topics.next_question(now.now_s, self.assignment)
        return actions if question is None else [*actions, question]

    def _redeliver(self, now: Moment) -> list[Action]:
        if now.leased and now.now_s >= self._redelivery.due_s:
            return [Put(records=self._redelivery.records)]
        return []

    def _resume_all(self) -> list[Action]:
        """Read again what neither a batch that waits nor the task has paused."""
        return [] if self._redelivery else [Resume(partitions=self.assignment - self._paused_by_task)]

    def _go_to(self, offsets: Mapping[TopicPartition, int]) -> list[Action]:
        """Go on reading there; what was read of these partitions before is forgotten."""
        self._redelivery.drop(offsets.keys())
        self._drop_held(offsets.keys())
        for place, offset in offsets.items():
            self._positions.move(place, offset)
        return [Seek(offsets=offsets)] if offsets else []

    def _drop_held(self, partitions: Collection[TopicPartition]) -> None:
        self._held = [each for each in self._held if (each.topic(), each.partition()) not in partitions]


def _created_anew(topic_ids: Mapping[TopicPartition, str]) -> Iterable[Warn]:
    by_topic = {place.topic: topic_id for place, topic_id in topic_ids.items()}
    for topic, topic_id in sorted(by_topic.items()):
        yield Warn(message=f"the topic {topic} was created anew, with the id {topic_id}; begins at its start")
