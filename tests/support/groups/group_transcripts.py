"""Readable tests of the group coordinator: a transcript tells what happens to a shard, and what comes of it.

A transcript is a text file of steps. A step is some commands, a line ``----``, and what they led to: records written,
requests answered, and groups that stand otherwise than before. Steps are separated by empty lines; lines that begin
with ``#`` are remarks. Every step is carried out on the shard that the steps before have left::

    # A lone member need not wait longer than the initial delay.
    join a
    advance 3s
    ----
    3s a < JoinGroup generation_id=1 leader=a-1 …
    g: CompletingRebalance generation=1 …

Commands every transcript knows:

- ``settings group_max_size=2``: other settings than `GroupSettings`'s defaults; goes on with an empty shard.
- ``topics flights=3``: the topics of the cluster, with their numbers of partitions.
- ``advance 3s``: let time pass, timer by timer; also ``ms``, ``m`` and ``h``.
- ``restart``: a new coordinator loads what was written; what waited for an answer never gets one.

A protocol brings more (see `classic_group_commands`): functions of a `Scene`, positional arguments and options. UUIDs
are counted up from 1 and shown as that number, so a member's id is short. Run pytest with
``OTTLA_REWRITE_TRANSCRIPTS=1`` to have the outcomes written into the files, then read the difference.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.wire.conversion import default_values, message_of
from ottla_core.wire.messages import message_codec
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.rebalance_counts import Rebalance
from ottla_group_coordinator.records import encode_key, encode_value
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer, Turn, VerificationGuard
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard import GroupShard
from tests.support.groups.shard_under_test import PARTITION, InTransaction, Marked, Stored, replay

REWRITE_VARIABLE = "OTTLA_REWRITE_TRANSCRIPTS"
SEPARATOR = "----"
START_MS = 1_000_000_000_000
"""Transcripts begin at this time, and show times relative to it."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_UUID = re.compile(r"00000000-0000-0000-0000-0000000000([0-9a-f]{2})")
_STORED_TIME = re.compile(r"(timestamp=)(\d{13})")

Arguments = list[str]
Options = dict[str, str]


def milliseconds(text: str) -> int:
    """Return a duration such as ``3s`` or ``500ms``."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS_MS[unit]


@dataclass
class Scene:
    """A shard, its clients, the log it writes, and what a step has led to.

    Attributes:
        commands: those of the protocols at hand, by name.
        describe_group: gives the line that shows how a group stands.
        hidden: names of fields that no line shows.
        log: what was written, in bytes.
        in_transactions: by place in the log, whose transactions records belong to, and when they were written.
        markers: by place in the log, the ends of transactions that stand before it.
        waiting: tokens of requests that are not answered, with the client's name.
        clients: what a protocol's commands remember of each client; they decide what.
        lines: the outcome of the step at hand.
        rebalances: those that turns have counted.
    """

    commands: Mapping[str, "Command"]
    describe_group: Callable[[Group], str]
    hidden: frozenset[str] = frozenset()
    settings: GroupSettings = field(default_factory=GroupSettings)
    cluster_state: ClusterState = field(default_factory=ClusterState)
    now_ms: int = START_MS
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    in_transactions: dict[int, tuple[TransactionProducer, int]] = field(default_factory=dict)
    markers: dict[int, list[Marked]] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    on_answer: Callable[["Scene", str, Entity], None] = lambda _scene, _client, _response: None

    def __post_init__(self) -> None:
        self._uuids = count(1)
        self._tokens = count(1)
        self._versions: dict[str, tuple[int, int]] = {}
        self._shown: dict[str, str] = {}
        self.shard = self._new_shard()
        self.shard.loaded(self.now_ms)

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            settings=self.settings,
            cluster_state=self.cluster_state,
            draw_uuid=lambda: UUID(int=next(self._uuids)),
        )

    def run(self, commands: list[str]) -> list[str]:
        """Carry out a step and return its outcome."""
        self.lines = []
        for command in commands:
            name, *words = command.split()
            arguments = [word for word in words if "=" not in word]
            options = dict(word.split("=", 1) for word in words if "=" in word)
            {**GENERAL_COMMANDS, **self.commands}[name](self, arguments, options)
        self._show_groups()
        return [self._short(line) for line in self.lines] or ["(nothing)"]

    def request(
        self,
        client: str,
        api_key: int,
        api_version: int,
        visible_topics: frozenset[str] | None = None,
        /,
        **values: object,
    ) -> None:
        """Send a request; fields that the version lacks are left out, others take their defaults."""
        message = message_of(load_request_schema(api_key, api_version), **values)
        self.send(client, api_key, api_version, message, visible_topics=visible_topics)

    def send(
        self,
        client: str,
        api_key: int,
        api_version: int,
        message: Entity,
        *,
        visible_topics: frozenset[str] | None = None,
        verification_guard: int | None = None,
    ) -> int | None:
        """Send a request; return the guard with which it is answered, if it is."""
        token = f"{client}/{next(self._tokens)}"
        self.waiting[token] = client
        request = GroupRequest(
            token=token,
            api_key=api_key,
            api_version=api_version,
            client_id=client,
            client_host=f"/{client}",
            message=message,
            visible_topics=visible_topics,
            verification_guard=verification_guard,
            partition=PARTITION,
        )
        self._versions[token] = (api_key, api_version)
        turn = self.shard.handle(request, self.now_ms)
        self.take(turn)
        guards = [answer.response.number for answer in turn.answers if isinstance(answer.response, VerificationGuard)]
        return guards[0] if guards else None

    def take(self, turn: Turn, at: str = "") -> None:
        """Store a turn's records and hand its answers out."""
        for record in turn.records:
            value = None if record.value is None else encode_value(record.value)
            if turn.transaction is not None:
                self.in_transactions[len(self.log)] = (turn.transaction, turn.timestamp_ms)
            self.log.append((encode_key(record.key), value))
            within = "" if turn.transaction is None else f" in {turn.transaction.id}:{turn.transaction.epoch}"
            self.lines.append(f"{at}write{within} {render_record(record, self.hidden)}")
        for marker in turn.markers:
            self.markers.setdefault(len(self.log), []).append(Marked(marker, turn.timestamp_ms))
            decision = "commit" if marker.is_commit else "abort"
            self.lines.append(f"{at}mark {decision} of {marker.producer_id}:{marker.producer_epoch}")
        self.rebalances += turn.counted
        for answer in turn.answers:
            token = str(answer.token)
            client = self.waiting.pop(token)
            if isinstance(answer.response, VerificationGuard):
                self.lines.append(f"{at}{client} < guard {answer.response.number}")
                continue
            message_codec(*self._versions[token]).encode_response(1, answer.response)  # which fails if it cannot be
            self.on_answer(self, client, answer.response)
            self.lines.append(f"{at}{client} < {render_response(answer.response, self.hidden)}")

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.timers.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.take(self.shard.advance(self.now_ms), f"{_clock(self.now_ms - START_MS)} ")
        self.now_ms = end_ms

    def restart(self) -> None:
        """Go on with a coordinator that knows what was stored and nothing else."""
        self.waiting.clear()
        self.shard = self._new_shard()
        for number, (key_bytes, value_bytes) in enumerate(self.log):
            self._replay_markers(number)
            stored: Stored = (key_bytes, value_bytes)
            if number in self.in_transactions:
                assert value_bytes is not None
                stored = InTransaction(key_bytes, value_bytes, *self.in_transactions[number])
            replay(self.shard, stored)
        self._replay_markers(len(self.log))
        self.take(self.shard.loaded(self.now_ms))

    def _replay_markers(self, number: int) -> None:
        for each in self.markers.get(number, ()):
            replay(self.shard, each)

    def _show_groups(self) -> None:
        shown = {group_id: self.describe_group(group) for group_id, group in sorted(self.shard.groups.items())}
        self.lines += [f"{name}: {line}" for name, line in shown.items() if self._shown.get(name) != line]
        self.lines += [f"{name}: gone" for name in self._shown if name not in shown]
        self._shown = shown

    def _short(self, line: str) -> str:
        """Shorten member ids to their number, topic ids to names, and stored times to those since the start."""
        for topic_id, topic in self.cluster_state.topics_by_id.items():
            line = line.replace(str(topic_id), topic.name)
        line = _UUID.sub(lambda match: str(int(match[1], 16)), line)
        return _STORED_TIME.sub(lambda match: match[1] + _clock(int(match[2]) - START_MS), line)


Command = Callable[[Scene, Arguments, Options], None]


def _settings(scene: Scene, _arguments: Arguments, options: Options) -> None:
    scene.settings = replace(scene.settings, **{name: _value(text) for name, text in options.items()})  # type: ignore[arg-type]
    scene.restart()


def _value(text: str) -> object:
    if text.isdecimal():
        return int(text)
    if re.fullmatch(r"\d+(ms|s|m|h)", text):
        return milliseconds(text)
    return tuple(text.split(",")) if "," in text else text


def _topics(scene: Scene, _arguments: Arguments, options: Options) -> None:
    topics = {name: _topic(name, int(partition_count)) for name, partition_count in options.items()}
    scene.cluster_state = ClusterState(
        revision=scene.cluster_state.revision + 1,
        topics=topics,
        topics_by_id={topic.id: topic for topic in topics.values()},
    )
    scene.take(scene.shard.on_cluster_state(scene.cluster_state, scene.now_ms))


def _topic(name: str, partition_count: int) -> Topic:
    topic_id = UUID(bytes=name.encode().ljust(16, b".")[:16])
    return Topic(
        name=name,
        id=topic_id,
        partitions=tuple(
            PartitionState(topic_id=topic_id, index=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
            for index in range(partition_count)
        ),
    )


GENERAL_COMMANDS: Mapping[str, Command] = {
    "settings": _settings,
    "topics": _topics,
    "advance": lambda scene, arguments, _options: scene.advance(milliseconds(arguments[0])),
    "restart": lambda scene, _arguments, _options: scene.restart(),
}


# How things look


def render_response(response: Entity, hidden: frozenset[str] = frozenset()) -> str:
    """Return a response in a line: its error, and the fields that say something."""
    name = type(response).__name__.removesuffix("Response")
    text = render(response, hidden)
    return f"{name} {text}" if text else f"{name} ok"


def render_record(record: CoordinatorRecord, hidden: frozenset[str] = frozenset()) -> str:
    """Return a record in a line."""
    name = type(record.key).__name__.removesuffix("Key")
    key = " ".join(str(getattr(record.key, f.name)) for f in fields(record.key))
    return f"{name} {key}: {'removed' if record.value is None else render(record.value, hidden)}"


def render(message: Any, hidden: frozenset[str]) -> str:
    """Return the fields of a message or record that say something: they differ from the default and are not empty."""
    message_type: type[Entity] = type(message)
    defaults = default_values(message_type) if hasattr(message_type, "__flexible__") else {}
    parts = []
    for f in fields(message):
        value = getattr(message, f.name)
        if isinstance(value, ErrorCode):
            parts += [] if value is ErrorCode.none else [value.name.upper()]
        elif value not in (None, "", b"", (), False) and defaults.get(f.name, f) != value and f.name not in hidden:
            parts.append(f"{f.name}={_rendered(value, hidden)}")
    return " ".join(parts)


def _rendered(value: Any, hidden: frozenset[str]) -> str:
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return text if text.isprintable() else value.hex()
    if isinstance(value, tuple):
        return "[" + ", ".join(_rendered(item, hidden) for item in value) + "]"
    if isinstance(value, timedelta):
        return _clock(value // timedelta(milliseconds=1))
    if isinstance(value, Enum):
        return str(value.value)
    return "{" + render(value, hidden) + "}" if is_dataclass(value) else str(value)


def _clock(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g}s"


# Files


@dataclass(frozen=True)
class Step:
    """A part of a transcript: `head` has commands and remarks, `outcome` what was found."""

    head: list[str]
    outcome: list[str]

    @property
    def commands(self) -> list[str]:
        """The lines to carry out."""
        return [line for line in self.head if line.strip() and not line.startswith("#")]


def read_transcript(text: str) -> list[Step]:
    """Return the steps of a transcript; a head may contain empty lines, an outcome ends with one."""
    steps = []
    head: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line != SEPARATOR:
            head.append(line)
            continue
        outcome = []
        for found in lines:
            if not found:
                break
            outcome.append(found)
        steps.append(Step(head, outcome))
        head = []
    assert not any(line.strip() for line in head), f"a step without {SEPARATOR}: {head}"
    return steps


class Runs(Protocol):
    """A scene of any kind."""

    def run(self, commands: list[str]) -> list[str]:
        """Carry out a step and return its outcome."""


def check_transcript(path: Path, scene: Runs) -> None:
    """Carry a transcript out and compare every outcome, or write the outcomes down."""
    steps = read_transcript(path.read_text(encoding="utf-8"))
    outcomes = [scene.run(step.commands) for step in steps]
    if os.environ.get(REWRITE_VARIABLE):
        blocks = ["\n".join([*step.head, SEPARATOR, *found]) for step, found in zip(steps, outcomes, strict=True)]
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        return
    for step, found in zip(steps, outcomes, strict=True):
        assert found == step.outcome, f"{path.name}: {step.commands}"
