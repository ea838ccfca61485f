"""Rules that transactions depend on, each deliberately broken, to show that the simulation notices.

Each entry says what is broken and puts something wrong in the place of the real rule while it is entered. Those
that `tests/faults/transactions` breaks in real processes are among them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.log.partition import log_transactions
from ottla_broker.log.partition.log_transactions import LogTransactions
from ottla_broker.log.producers.open_transactions import OpenTransactions
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_broker.log.producers.transaction_checks import check_marker
from ottla_broker.log.producers.verification import VerificationGuard, Verifications
from ottla_broker.transactions.produce_verification import ProduceVerification, VerificationResult
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.control_records import TransactionMarker
from ottla_group_coordinator.markers.pending_end import PendingEnd
from ottla_group_coordinator.offsets import transactions
from ottla_group_coordinator.runtime.shard_round import Round
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime
from ottla_group_coordinator.transactions import adding, ending
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import Transaction
from ottla_group_coordinator.transactions.transaction_state import PREPARED
from tests.support.replaced_rule import rule_replaced

BrokenRule = Callable[[], AbstractContextManager[Any]]


def _replaced(owner: Any, name: str, wrong: Any) -> BrokenRule:
    return lambda: rule_replaced(owner, name, wrong)


def _both(*rules: BrokenRule) -> BrokenRule:
    @contextmanager
    def entered() -> Iterator[None]:
        with ExitStack() as stack:
            for rule in rules:
                stack.enter_context(rule())
            yield

    return entered


# The log


def _verified_all(self: ProduceVerification, _told: Any) -> VerificationResult:
    return VerificationResult({each.place: each.guard for each in self._asked.values()}, dict(self._errors))


def _guard_is_there(
    _self: Verifications, guard: VerificationGuard | None, _producer_id: int, _producer_epoch: int
) -> bool:
    return guard is not None


def _any_epoch(_self: ProducerStates, _producer_id: int, _producer_epoch: int) -> None:
    """See nothing."""


def _any_marker(_producers: ProducerStates, _marker: TransactionMarker, _transaction_version: int) -> None:
    """See nothing."""


def _any_coordinator(producers: ProducerStates, marker: TransactionMarker, transaction_version: int) -> None:
    check_marker(producers, replace(marker, coordinator_epoch=2**31 - 1), transaction_version)


def _nothing_is_unstable(_self: OpenTransactions, _high_watermark: int) -> int | None:
    return None


def _forget_abort(_self: LogTransactions, _ended: Any) -> None:
    """Forget it."""


# Markers


async def _told_written(_self: MarkerWriting, markers: Any, _ask: Any, *, are_clients: bool = False) -> Any:
    del are_clients
    from kio.schema.errors import ErrorCode  # noqa: PLC0415

    return [[ErrorCode.none] * len(each.partitions) for each in markers]


def _all_but_one(self: PendingEnd) -> list[TopicPartition]:
    wanted = sorted(self.missing - self.asked)
    if len(self.missing) > 1 and wanted and wanted[0] == min(self.missing):
        self.missing.discard(wanted.pop(0))
    return wanted


# The coordinator


_write = TransactionShardState.write


def _write_but_for_ends(
    self: TransactionShardState, turn: Any, transactional_id: str, transaction: Transaction
) -> None:
    _write(self, turn, transactional_id, transaction)
    if transaction.state in PREPARED:
        turn.records.pop()


def _write_nothing_of_partitions(
    self: TransactionShardState, turn: Any, transactional_id: str, transaction: Transaction
) -> None:
    _write(self, turn, transactional_id, transaction)
    if transaction.state.value == "Ongoing":
        turn.records.pop()


_must_end, _must_end_raising_epochs = ending._must_end, ending._must_end_raising_epochs


def _anybody_may_end(transaction: Transaction, asked: Any, *, is_commit: bool) -> bool:
    del asked
    return _must_end(transaction, transaction.client_identity, is_commit=is_commit)


def _anybody_may_end_raising(transaction: Transaction, asked: Any, *, is_commit: bool) -> bool:
    del asked
    return _must_end_raising_epochs(transaction, transaction.client_identity, is_commit=is_commit)


def _any_producer_may_add(_transaction: Transaction, _asked: Any) -> None:
    """See nothing."""


def _keep_number(_self: TransactionShardState, _turn: Any, _number: int) -> None:
    """Keep that of the former owner."""


_replay_marker = transactions.replay_marker


def _replay_as_commit(shard: Any, marker: TransactionMarker, timestamp_ms: int) -> None:
    _replay_marker(shard, replace(marker, is_commit=True), timestamp_ms)


_complete = ShardRuntime._complete


async def _answer_before_it_is_stored(self: ShardRuntime[Any], taken: Round) -> None:
    for token, response in taken.answers:
        waiting = self._waiting.pop(token, None)
        if waiting is not None:
            waiting.answer(response)
    taken.answers.clear()
    await _complete(self, taken)


async def _effects_before_they_are_stored(self: ShardRuntime[Any], taken: Round) -> None:
    if taken.effects:
        self._shared.carry_out(self, taken.effects)
        taken.effects = []
    await _complete(self, taken)


OFTEN: Mapping[str, Sequence[str]] = {
    "markers end whatever is open": ("move_behind_a_cut",),
    "markers of any owner count": ("move_behind_a_cut",),
    "markers are sent before the end is stored": ("kill", "move_behind_a_cut"),
}
"""What has to go wrong (see `FAULTS`) for a breach to show, where that seldom happens in all the other trouble."""

VERSIONS: Mapping[str, int] = dict.fromkeys(
    ("guards are never void", "markers end whatever is open", "markers of any owner count"), 1
)
"""The version of the protocol in which a breach shows, where that is one."""

BROKEN_RULES: Mapping[str, BrokenRule] = {
    "refused transactions begin all the same": _replaced(ProduceVerification, "_verified", _verified_all),
    "guards are never void": _replaced(Verifications, "is_valid", _guard_is_there),
    "markers end whatever is open": _replaced(log_transactions, "check_marker", _any_marker),
    "undecided records are seen": _replaced(OpenTransactions, "first_unstable_offset", _nothing_is_unstable),
    "aborts are not told": _replaced(LogTransactions, "_note_ended", _forget_abort),
    "markers are told written and are not": _replaced(MarkerWriting, "write", _told_written),
    "ends are not stored": _replaced(TransactionShardState, "write", _write_but_for_ends),
    "partitions are not stored": _replaced(TransactionShardState, "write", _write_nothing_of_partitions),
    "anybody may end": _both(
        _replaced(ending, "_must_end", _anybody_may_end),
        _replaced(ending, "_must_end_raising_epochs", _anybody_may_end_raising),
    ),
    "any producer may add": _replaced(adding, "_check_identity", _any_producer_may_add),
    "offsets of aborted transactions count": _replaced(transactions, "replay_marker", _replay_as_commit),
    "answers come before they are stored": _replaced(ShardRuntime, "_complete", _answer_before_it_is_stored),
    "markers are sent before the end is stored": _replaced(
        ShardRuntime, "_complete", _effects_before_they_are_stored
    ),
    "ownership numbers stay": _replaced(TransactionShardState, "raise_number", _keep_number),
    "markers of any owner count": _replaced(log_transactions, "check_marker", _any_coordinator),
    "one partition's marker is forgotten": _replaced(PendingEnd, "due", _all_but_one),
}
