"""What transcripts of a sink task's state machine are played on: a shell whose consumer, task and clock are scripted.

A transcript has the form of those of the group coordinator (see `check_transcript`): steps of commands, a line
``----``, and the actions that the machine has wanted done, one a line, in the order in which a shell does them. Times
are seconds since the start; ``t-0@5`` is the record at offset 5 of the partition ``t-0``. Commands:

- ``settings poll_records_max=2 flush_interval_s=60 flush_timeout_s=5``: other settings; goes on with a new machine.
- ``turn``, ``turn paused``, ``turn unleased``: one turn of the loop.
- ``messages t-0@5 t-0@6``: what the next read that asks for them returns, as many as it wants.
- ``assign t-0 t-1``, ``revoke t-0``, ``lose t-0``: a rebalance, as from within a read.
- ``seek t-0=5``, ``pause t-0``, ``resume t-0``, ``retry_in 2``, ``request_commit``: the task asks for something.
- ``during put|pre_commit|open|read|convert|settle COMMAND``: the command happens within the next such action.
- ``fail put|pre_commit``: the next such call raises `RetriableError`.
- ``allow t-0=5``: what the next `pre_commit` returns; otherwise all that it is offered.
- ``lease gone``, ``lease back``; ``advance 3``: the lease, and the time.
- ``committed t-0=7``, ``commit_failed``: the answer to a commit that was not waited for.
- ``refuse``: the consumer refuses the next commit.
- ``topics t=A``: the ids of the cluster's topics; ``stored t-0=A``: of which topic a partition's last commit is.
- ``topic_ids``: the last question about ids is answered.
- ``end``: the task stops.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ottla_connect.task.sink.actions import (
    Action,
    AskTopicIds,
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
from ottla_connect.task.sink.state_machine import SinkStateMachine
from ottla_sdk import ConnectError, SinkRecord, TopicPartition

SETTINGS = SinkSettings(
    poll_records_max=10, flush_interval_s=60.0, flush_timeout_s=5.0, incremental=True, from_start=True
)
START_S = 1000.0


@dataclass(frozen=True)
class ScriptedMessage:
    """A message of which only the place matters."""

    place: TopicPartition
    offset: int

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition


class SinkScene:
    """A machine, and everything around it."""

    def __init__(self) -> None:
        self.settings = SETTINGS
        self.reset()

    def reset(self) -> None:
        self.now_s, self.leased = START_S, True
        self.machine = SinkStateMachine[ScriptedMessage](self.settings, self.now())
        self.messages: list[ScriptedMessage] = []
        self.during: dict[str, list[str]] = defaultdict(list)
        self.failing: set[str] = set()
        self.allowed: dict[TopicPartition, int] | None = None
        self.topics: dict[str, str] = {}
        self.stored: dict[TopicPartition, str] = {}
        self.question: AskTopicIds | None = None
        self.begun: dict[TopicPartition, int] = {}
        self.lines: list[str] = []

    def now(self) -> Moment:
        return Moment(self.now_s, self.leased)

    def run(self, commands: Sequence[str]) -> list[str]:
        """Carry out a step and return its outcome."""
        self.lines = []
        for command in commands:
            self.command(command)
        return self.lines or ["(nothing)"]

    def command(self, text: str) -> None:
        name, *words = text.split()
        getattr(self, f"on_{name}")(*words)

    # Commands.

    def on_settings(self, *words: str) -> None:
        values = {name: float(value) for name, value in (word.split("=") for word in words)}
        if "poll_records_max" in values:
            values["poll_records_max"] = int(values["poll_records_max"])
        self.settings = replace(SETTINGS, **values)
        self.reset()

    def on_turn(self, kind: str = "") -> None:
        if kind == "unleased":
            self.leased = False
            self.do(self.machine.stand_by())
            return
        self.do(self.machine.work(self.now(), paused=kind == "paused"))
        self.do(self.machine.tick(self.now()))
        self.do(self.machine.proceed(self.now()))

    def on_messages(self, *words: str) -> None:
        for word in words:
            place, offset = word.split("@")
            self.messages.append(ScriptedMessage(partition(place), int(offset)))

    def on_assign(self, *words: str) -> None:
        partitions = [partition(word) for word in words]
        self.do(self.machine.assigned(partitions))
        self.begun = beginnings = self.machine.beginnings(partitions)
        paused = [each for each in partitions if self.machine.must_pause(each)]
        self.lines.append(
            f"begin {named(partitions)}"
            + (f" at {valued(beginnings)}" if beginnings else "")
            + (f" paused {named(paused)}" if paused else "")
        )

    def on_revoke(self, *words: str, lost: bool = False) -> None:
        partitions = [partition(word) for word in words]
        self.do(self.machine.revoked(partitions, self.now(), lost=lost))
        self.do(self.machine.given_away(partitions))

    def on_lose(self, *words: str) -> None:
        self.on_revoke(*words, lost=True)

    def on_seek(self, *words: str) -> None:
        with self.refusals():
            self.machine.task_seeks(offsets_in(words))

    def on_pause(self, *words: str) -> None:
        with self.refusals():
            self.do(self.machine.task_pauses({partition(word) for word in words}))

    def on_resume(self, *words: str) -> None:
        self.do(self.machine.task_resumes({partition(word) for word in words}))

    def on_retry_in(self, seconds: str) -> None:
        self.machine.task_retries_in(float(seconds))

    def on_request_commit(self) -> None:
        self.machine.task_asks_to_commit()

    def on_during(self, action: str, *words: str) -> None:
        self.during[action].append(" ".join(words))

    def on_fail(self, call: str) -> None:
        self.failing.add(call)

    def on_refuse(self) -> None:
        self.failing.add("commit")

    def on_allow(self, *words: str) -> None:
        self.allowed = offsets_in(words)

    def on_lease(self, state: str) -> None:
        self.leased = state == "back"

    def on_advance(self, seconds: str) -> None:
        self.now_s += float(seconds)

    def on_committed(self, *words: str) -> None:
        self.do(self.machine.commit_answered(offsets_in(words), None, self.now()))

    def on_commit_failed(self) -> None:
        self.do(self.machine.commit_answered({}, "not the coordinator", self.now()))

    def on_topics(self, *words: str) -> None:
        self.topics = dict(word.split("=") for word in words)

    def on_stored(self, *words: str) -> None:
        self.stored.update({partition(place): f"topic.id={name}" for place, name in (w.split("=") for w in words)})

    def on_topic_ids(self) -> None:
        assert self.question is not None, "nothing was asked"
        self.machine.topic_ids_found(self.question.ticket, self.topics)

    def on_end(self) -> None:
        self.do(self.machine.end(self.now()))

    # The shell.

    @contextmanager
    def refusals(self) -> Iterator[None]:
        try:
            yield
        except ConnectError as error:
            self.lines.append(f"refuse: {error}")

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            getattr(self, ANSWERS.get(type(action), "only_show"))(action)

    def only_show(self, action: Action) -> None:
        self.lines.append(SHOWN[type(action)](action))

    def meanwhile(self, action: str) -> None:
        commands, self.during[action] = self.during[action], []
        for command in commands:
            self.command(command)

    def read(self, action: Read) -> None:
        self.meanwhile("read")
        messages, self.messages = self.messages[: action.count_max], self.messages[action.count_max :]
        self.lines.append(f"read {action.count_max} within {action.timeout_s:g}s: {named_messages(messages)}")
        self.do(self.machine.messages_read(messages, self.now()))

    def convert(self, action: Convert) -> None:
        self.meanwhile("convert")
        for message in action.messages:
            self.machine.read(message.topic(), [message.partition()], [message.offset])
        self.do(self.machine.converted([record_of(message) for message in action.messages], self.now()))

    def put(self, action: Put) -> None:
        records = [f"{each.original_topic}-{each.original_partition}@{each.offset}" for each in action.records]
        self.lines.append(f"put {' '.join(records) or 'nothing'}")
        self.meanwhile("put")
        if "put" in self.failing:
            self.failing.remove("put")
            self.do(self.machine.put_failed(action.records, "the target is away", self.now()))
        else:
            self.do(self.machine.put_succeeded())

    def pre_commit(self, action: PreCommit) -> None:
        self.lines.append(f"pre_commit {valued(action.offered)}{' closing' if action.closing else ''}")
        self.meanwhile("pre_commit")
        allowed, self.allowed = self.allowed, None
        if "pre_commit" in self.failing:
            self.failing.remove("pre_commit")
            self.do(self.machine.pre_commit_failed(action))
        else:
            answer = action.offered if allowed is None else allowed
            self.do(self.machine.pre_commit_answered(action, answer))

    def settle_reports(self, action: SettleReports) -> None:
        self.lines.append("settle reports")
        self.meanwhile("settle")
        self.do(self.machine.reports_settled(action, self.now()))

    def commit(self, action: CommitOffsets) -> None:
        ids = {metadata.removeprefix("topic.id=") for metadata in action.metadata.values()} - {""}
        of = f" of {' '.join(sorted(ids))}" if ids else ""
        self.lines.append(f"commit {valued(action.offsets)}{of}{' and wait' if action.wait else ''}")
        if "commit" in self.failing:
            self.failing.remove("commit")
            self.do(self.machine.commit_refused("the group has rebalanced"))
        else:
            self.do(self.machine.commit_sent(action, self.now()))

    def identify_topics(self, action: IdentifyTopics) -> None:
        committed = {each: self.stored.get(each) for each in action.partitions}
        self.lines.append(f"identify {named(action.partitions)}")
        self.do(self.machine.identified(action.partitions, committed, self.topics))

    def ask_topic_ids(self, action: AskTopicIds) -> None:
        self.question = action
        self.lines.append(f"ask for the ids of {' '.join(sorted(action.topics))}")

    def open(self, action: OpenPartitions) -> None:
        self.lines.append(f"open {named(action.partitions)}")
        self.meanwhile("open")


ANSWERS: Mapping[type, str] = {
    Read: "read",
    Convert: "convert",
    Put: "put",
    PreCommit: "pre_commit",
    SettleReports: "settle_reports",
    CommitOffsets: "commit",
    IdentifyTopics: "identify_topics",
    AskTopicIds: "ask_topic_ids",
    OpenPartitions: "open",
}
SHOWN: Mapping[type, Callable] = {
    Pause: lambda action: f"pause {named(action.partitions)}",
    Resume: lambda action: f"resume {named(action.partitions)}",
    Seek: lambda action: f"go to {valued(action.offsets)}",
    LeaveGroup: lambda _: "leave the group",
    CloseConsumer: lambda _: "close the consumer",
    ClosePartitions: lambda action: f"close {named(action.partitions)}",
    StopTask: lambda _: "stop the task",
    TellRunning: lambda _: "tell: running",
    TellPaused: lambda _: "tell: paused",
    TellRetry: lambda action: f"tell: {action.record_count} records again in {action.pause_s:.1f}s",
    TellCommitted: lambda action: f"tell: committed in {action.took_s:g}s",
    TellCommitFailed: lambda action: f"tell: not committed, {action.reason}",
    TellCommitLate: lambda action: f"tell: no answer to a commit within {action.timeout_s:g}s",
    Warn: lambda action: f"warn: {action.message}",
}


def record_of(message: ScriptedMessage) -> SinkRecord:
    return SinkRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset,
        original_topic=message.topic(),
        original_partition=message.partition(),
    )


def partition(text: str) -> TopicPartition:
    topic, number = text.rsplit("-", 1)
    return TopicPartition(topic, int(number))


def offsets_in(words: Iterable[str]) -> dict[TopicPartition, int]:
    return {partition(place): int(offset) for place, offset in (word.split("=") for word in words)}


def named(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions)) or "nothing"


def named_messages(messages: Iterable[ScriptedMessage]) -> str:
    return " ".join(f"{named([each.place])}@{each.offset}" for each in messages) or "nothing"


def valued(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{named([place])}={offset}" for place, offset in sorted(offsets.items())) or "nothing"
