"""Readable tests of the rules of transactions: transcripts as in `tests.support.groups.group_transcripts`.

A producer is named by its first argument. It remembers the producer id and epoch that it was told, and has the
transactional id ``t`` unless ``id=`` says otherwise. Commands:

- ``init a timeout=60s version=5``: InitProducerId; ``as=101/0`` goes on after an error; ``two_phase=1 keep=1``.
  This and EndTxn have a producer id to give away, counted from 101 on; none with ``fresh=0``.
- ``add a p-0 p-1 version=3``: AddPartitionsToTxn; from version 4 on as a broker sends it, ``verify a p-0`` only asks.
- ``offsets a g``: AddOffsetsToTxn.
- ``commit a version=5``, ``abort a``; ``as=101/0`` here and above: under another identity than its own.
- ``describe t …``, ``list states=Ongoing,Empty duration=5s pattern=t.* producers=101``.
- ``written 1``: every partition has the marker of the first line ``send 1 …``; ``wanted 7``: markers want a number.
- ``transaction.version 1``: what the cluster has finalised; 2 to begin with. ``topics __consumer_offsets=50``.
- ``epoch 32766``: lets ``t`` have had so many epochs.
- ``settings max_timeout_ms=10s``, ``advance 3s``, ``restart``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.features import OTTLA_VERSION, TRANSACTION_LEVEL, TRANSACTION_VERSION, FinalizedFeatures
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.wire import transaction_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import message_codec
from ottla_group_coordinator.runtime.turn import Answer, CoordinatorRecord, Token, Turn
from ottla_group_coordinator.transactions.counts import Ending
from ottla_group_coordinator.transactions.effects import SendMarkers
from ottla_group_coordinator.transactions.records import (
    OwnershipKey,
    TransactionValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    transaction_of,
)
from ottla_group_coordinator.transactions.requests import MarkersWritten, NumberWanted, TransactionRequest
from ottla_group_coordinator.transactions.settings import TransactionSettings
from ottla_group_coordinator.transactions.shard import TransactionShard
from ottla_group_coordinator.transactions.transaction import Identity, Partitions
from tests.support.groups.group_transcripts import START_MS, Arguments, Options, milliseconds, render_response

HIDDEN = frozenset({"throttle_time", "transaction_start_time"})
FIRST_FRESH_ID = 101
BRINGS_PRODUCER_ID = frozenset({api.INIT_PRODUCER_ID, api.END_TXN})


def features(transaction_version: int) -> FinalizedFeatures:
    """The features of a cluster with transactions."""
    return FinalizedFeatures(levels={OTTLA_VERSION: TRANSACTION_LEVEL, TRANSACTION_VERSION: transaction_version})


@dataclass
class TransactionScene:
    """A shard, its producers, the log that it writes, and what a step has led to.

    Attributes:
        log: what was written, in bytes.
        identities: what producers write as, by name.
        orders: the markers that the shard wanted to be sent, in order.
        endings: what turns have counted.
        lines: the outcome of the step at hand.
    """

    settings: TransactionSettings = field(default_factory=lambda: TransactionSettings(hold_ms=0))
    cluster_state: ClusterState = field(default_factory=lambda: ClusterState(features=features(2)))
    now_ms: int = START_MS
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    identities: dict[str, Identity] = field(default_factory=dict)
    orders: list[SendMarkers] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tokens = count(1)
        self._names: dict[Token, str] = {}
        self._requests: dict[Token, TransactionRequest] = {}
        self._fresh_ids = count(FIRST_FRESH_ID)
        self.shard = self._new_shard()
        self.take(self.shard.loaded(self.now_ms))

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(settings=self.settings, cluster_state=self.cluster_state)

    def run(self, commands: list[str]) -> list[str]:
        """Carry out a step and return its outcome."""
        self.lines = []
        for command in commands:
            name, *words = command.split()
            arguments = [word for word in words if "=" not in word]
            options = dict(word.split("=", 1) for word in words if "=" in word)
            COMMANDS[name](self, arguments, options)
        return self.lines or ["(nothing)"]

    def request(
        self, name: str, api_key: int, api_version: int, /, *, with_fresh_id: bool = True, **values: object
    ) -> Any:
        """Send a request and return the answer, or None if it waits; fields that the version lacks are left out."""
        request = TransactionRequest(
            token=next(self._tokens),
            api_key=api_key,
            api_version=api_version,
            client_id=name,
            message=message_of(load_request_schema(api_key, api_version), **values),
            fresh_producer_id=next(self._fresh_ids) if with_fresh_id and api_key in BRINGS_PRODUCER_ID else None,
        )
        turn = self.shard.handle(request, self.now_ms)
        self._names[request.token] = name
        self._requests[request.token] = request
        if not turn.answers:
            self.take(turn)
            self.lines.append(f"{name} waits")
            return None
        ((token, response),) = turn.answers
        assert token == request.token
        self.take(turn)
        return response

    def tell(self, request: MarkersWritten | NumberWanted) -> Any:
        """Send a request of the process itself, and return the answer."""
        turn = self.shard.handle(request, self.now_ms)
        self.take(turn)
        self.advance(0)
        return turn.answers[0].response

    def _take_answer(self, answer: Answer, at: str) -> None:
        request = self._requests.pop(answer.token, None)
        if request is None:
            return
        name, response = self._names.pop(answer.token), answer.response
        if request.api_key == api.INIT_PRODUCER_ID and response.error_code is ErrorCode.none:
            self.identities[name] = Identity(response.producer_id, response.producer_epoch)
        # Which fails if it cannot be.
        message_codec(request.api_key, request.api_version).encode_response(1, response)
        self.lines.append(f"{at}{name} < {render_response(response, HIDDEN)}")

    def token(self) -> int:
        """Return a token that no other request has."""
        return next(self._tokens)

    def advance(self, duration_ms: int) -> None:
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.timers.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.take(self.shard.advance(self.now_ms), f"{_clock(self.now_ms)} ")
        self.now_ms = end_ms

    def restart(self) -> None:
        """Go on with an owner that knows what was stored and nothing else."""
        self.shard = self.replayed()
        self.take(self.shard.loaded(self.now_ms))

    def replayed(self) -> TransactionShard:
        """Another shard with the same log, not yet told that it is loaded."""
        shard = self._new_shard()
        for record in self.records():
            shard.replay(record)
        return shard

    def records(self, since: int = 0) -> Iterator[CoordinatorRecord]:
        """What the log has from its record number `since` on."""
        for key_bytes, value_bytes in self.log[since:]:
            key = decode_key(key_bytes)
            assert key is not None, "all that we write can be read"
            yield CoordinatorRecord(key, None if value_bytes is None else decode_value(key, value_bytes))

    def change(self, state: ClusterState) -> None:
        """Let the shard take over another cluster state."""
        self.cluster_state = state
        self.take(self.shard.on_cluster_state(state, self.now_ms))

    def take(self, turn: Turn, at: str = "") -> None:
        """Store a turn's records, and show what it has led to."""
        for record in turn.records:
            value = None if record.value is None else encode_value(record.value)
            self.log.append((encode_key(record.key), value))
            self.lines.append(f"{at}write {render_record(record)}")
        for order in turn.effects:
            self.orders.append(order)
            self.lines.append(f"{at}send {len(self.orders)} {render_order(order)}")
        self.endings += turn.counted
        for answer in turn.answers:
            self._take_answer(answer, at)


def render_record(record: CoordinatorRecord) -> str:
    """Return a record in a line."""
    if isinstance(record.key, OwnershipKey):
        return f"ownership number {record.value.number}"  # type: ignore[union-attr]
    name = record.key.transactional_id
    if record.value is None:
        return f"{name}: removed"
    value = record.value
    assert isinstance(value, TransactionValue)
    found = transaction_of(value)
    parts = [f"{name}: {found.state.value} {found.producer_id}/{found.producer_epoch}"]
    if found.next_producer_id >= 0:
        parts.append(f"next={found.next_producer_id}/{max(found.next_producer_epoch, 0)}")
    if found.previous_producer_id not in {-1, found.producer_id}:
        parts.append(f"previous={found.previous_producer_id}")
    parts += [_partitions(found.partitions)] if found.partitions else []
    if found.start_ms >= 0:
        parts.append(f"start={_clock(found.start_ms)}")
    parts.append("timeout=never" if found.is_two_phase else f"timeout={found.timeout_ms / 1000:g}s")
    parts.append(f"version={found.client_version}")
    return " ".join(parts) + ("" if value.version else " (fixed fields)")


def render_order(order: SendMarkers) -> str:
    """Return in a line what markers are to be sent."""
    result = "COMMIT" if order.is_commit else "ABORT"
    identity = order.end.identity
    return (
        f"{order.end.transactional_id} {result} {identity.producer_id}/{identity.epoch}"
        f" number={order.ownership_number} version={order.transaction_version} {_partitions(order.partitions)}"
    )


def _partitions(partitions: Partitions) -> str:
    return ",".join(f"{topic}-{index}" for topic, indexes in sorted(partitions.items()) for index in indexes)


def _clock(at_ms: int) -> str:
    return f"{(at_ms - START_MS) / 1000:g}s"


# Commands

Command = Callable[[TransactionScene, Arguments, Options], None]


def _identity(scene: TransactionScene, name: str, options: Options) -> Identity:
    if "as" in options:
        return Identity(*map(int, options["as"].split("/")))
    return scene.identities.get(name, Identity(-1, -1))


def _init(scene: TransactionScene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    known = _identity(scene, name, options) if "as" in options else Identity(-1, -1)
    scene.request(
        name,
        api.INIT_PRODUCER_ID,
        int(options.get("version", 6)),
        with_fresh_id=options.get("fresh") != "0",
        transactional_id=options.get("id", "t"),
        transaction_timeout=timedelta(milliseconds=milliseconds(options.get("timeout", "60s"))),
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        enable2_pc=options.get("two_phase") == "1",
        keep_prepared_txn=options.get("keep") == "1",
    )


def _topics_of(partitions: Arguments) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for text in partitions:
        topic, _, index = text.rpartition("-")
        found.setdefault(topic, []).append(int(index))
    return found


def _add(scene: TransactionScene, arguments: Arguments, options: Options, *, verify_only: bool = False) -> None:
    name, *partitions = arguments
    version = int(options.get("version", 5))
    request_type = load_request_schema(api.ADD_PARTITIONS_TO_TXN, version)
    producer_id, epoch = _identity(scene, name, options)
    if version < api.FIRST_BATCHED_ADD_PARTITIONS:
        topic_type = item_type(request_type, "v3_and_below_topics")
    else:
        topic_type = item_type(item_type(request_type, "transactions"), "topics")
    topics = tuple(
        message_of(topic_type, name=topic, partitions=tuple(indexes))
        for topic, indexes in _topics_of(partitions).items()
    )
    id_ = options.get("id", "t")
    values: dict[str, Any]
    if version < api.FIRST_BATCHED_ADD_PARTITIONS:
        values = {
            "v3_and_below_transactional_id": id_,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": topics,
        }
    else:
        one = message_of(
            item_type(request_type, "transactions"),
            transactional_id=id_,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=topics,
        )
        values = {"transactions": (one,)}
    scene.request(name, api.ADD_PARTITIONS_TO_TXN, version, **values)


def _offsets(scene: TransactionScene, arguments: Arguments, options: Options) -> None:
    name, group = arguments
    producer_id, epoch = _identity(scene, name, options)
    scene.request(
        name,
        api.ADD_OFFSETS_TO_TXN,
        int(options.get("version", 4)),
        transactional_id=options.get("id", "t"),
        producer_id=producer_id,
        producer_epoch=epoch,
        group_id=group,
    )


def _end(scene: TransactionScene, arguments: Arguments, options: Options, *, committed: bool) -> None:
    (name,) = arguments
    producer_id, epoch = _identity(scene, name, options)
    version = int(options.get("version", 5))
    response = scene.request(
        name,
        api.END_TXN,
        version,
        with_fresh_id=options.get("fresh") != "0",
        transactional_id=options.get("id", "t"),
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=committed,
    )
    if response.error_code is ErrorCode.none and version >= api.FIRST_EPOCH_BUMPING_END_TXN:
        scene.identities[name] = Identity(response.producer_id, response.producer_epoch)


def _describe(scene: TransactionScene, arguments: Arguments, _options: Options) -> None:
    scene.request("admin", api.DESCRIBE_TRANSACTIONS, 0, transactional_ids=tuple(arguments or ["t"]))


def _list(scene: TransactionScene, _arguments: Arguments, options: Options) -> None:
    scene.request(
        "admin",
        api.LIST_TRANSACTIONS,
        int(options.get("version", 2)),
        state_filters=tuple(options["states"].split(",")) if "states" in options else (),
        producer_id_filters=tuple(map(int, options["producers"].split(","))) if "producers" in options else (),
        duration_filter=milliseconds(options["duration"]) if "duration" in options else -1,
        transactional_id_pattern=options.get("pattern"),
    )


def _written(scene: TransactionScene, arguments: Arguments, _options: Options) -> None:
    order = scene.orders[int(arguments[0]) - 1]
    if not scene.tell(MarkersWritten(token=scene.token(), message=order.end)):
        scene.lines.append("(void)")


def _wanted(scene: TransactionScene, arguments: Arguments, _options: Options) -> None:
    number = scene.tell(NumberWanted(token=scene.token(), message=int(arguments[0])))
    scene.lines.append(f"number {number}")


def _settings(scene: TransactionScene, _arguments: Arguments, options: Options) -> None:
    values: dict[str, Any] = {name: _value(text) for name, text in options.items()}
    scene.settings = replace(scene.settings, **values)
    scene.restart()


def _value(text: str) -> object:
    if text in {"True", "False"}:
        return text == "True"
    return milliseconds(text) if re.fullmatch(r"\d+(ms|s|m|h)", text) else int(text)


def _transaction_version(scene: TransactionScene, arguments: Arguments, _options: Options) -> None:
    scene.change(replace(scene.cluster_state, features=features(int(arguments[0]))))


def _epoch(scene: TransactionScene, arguments: Arguments, _options: Options) -> None:
    turn = Turn(scene.now_ms, scene.now_ms)
    known = scene.shard.transactions["t"]
    scene.shard.write(turn, "t", replace(known, producer_epoch=int(arguments[0])))
    scene.take(turn)
    for name, identity in scene.identities.items():
        scene.identities[name] = Identity(identity.producer_id, int(arguments[0]))


def _topics(scene: TransactionScene, _arguments: Arguments, options: Options) -> None:
    topics = {name: topic_of(name, int(partition_count)) for name, partition_count in options.items()}
    scene.change(replace(scene.cluster_state, topics=topics))


def topic_of(name: str, partition_count: int, *, leader: int = 1) -> Topic:
    """A topic, led by one broker."""
    topic_id = UUID(bytes=name.encode().ljust(16, b".")[:16])
    partitions = tuple(
        PartitionState(topic_id=topic_id, index=index, replicas=(1,), isr=(1,), leader=leader, leader_epoch=0)
        for index in range(partition_count)
    )
    return Topic(name=name, id=topic_id, partitions=partitions)


COMMANDS: Mapping[str, Command] = {
    "init": _init,
    "add": _add,
    "verify": lambda scene, arguments, options: _add(scene, arguments, options, verify_only=True),
    "offsets": _offsets,
    "commit": lambda scene, arguments, options: _end(scene, arguments, options, committed=True),
    "abort": lambda scene, arguments, options: _end(scene, arguments, options, committed=False),
    "describe": _describe,
    "list": _list,
    "written": _written,
    "wanted": _wanted,
    "epoch": _epoch,
    "settings": _settings,
    "transaction.version": _transaction_version,
    "topics": _topics,
    "advance": lambda scene, arguments, _options: scene.advance(milliseconds(arguments[0])),
    "restart": lambda scene, _arguments, _options: scene.restart(),
}
