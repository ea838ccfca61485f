"""Rules that transactions depend on, deliberately broken, and a network that brings markers once more and late.

See `tests/faults/broken_rules.py`, which runs a service with one of them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.replaced_rule import replace_rule

LATE_S = 0.5
"""After which a marker comes once more."""


def refused_transactions_begin_all_the_same() -> None:
    """A broker asks the coordinator before a transaction begins in a partition, and ignores the answer."""
    from ottla_broker.transactions.produce_verification import (  # noqa: PLC0415 - only for the broker
        ProduceVerification,
        VerificationResult,
    )

    def verified(self: ProduceVerification, _told: Any) -> VerificationResult:
        return VerificationResult({each.place: each.guard for each in self._asked.values()}, dict(self._errors))

    replace_rule(ProduceVerification, "_verified", verified)


def markers_end_whatever_is_open() -> None:
    """A log takes a marker without looking at its epochs."""
    from ottla_broker.log.partition import log_transactions  # noqa: PLC0415 - only for the broker

    def check_marker(*_: Any) -> None:
        """See nothing."""

    replace_rule(log_transactions, "check_marker", check_marker)


def markers_come_again_late() -> None:
    """What the network may do, and no broken rule: markers of version 2 come once more half a second later."""
    import asyncio  # noqa: PLC0415

    from ottla_core.callback_answer import CallbackAnswer  # noqa: PLC0415
    from ottla_group_coordinator.runtime.relay_stream import RelayStream  # noqa: PLC0415 - only for the coordinator
    from ottla_proto.gen.ottla import group_relay_pb2 as pb  # noqa: PLC0415

    write_markers = RelayStream.write_markers

    def write_twice(self: RelayStream, markers: pb.MarkersWrite) -> CallbackAnswer[pb.MarkersWritten]:
        def again() -> None:
            if not self.closed.is_set():
                late = pb.MarkersWrite(markers=[each for each in markers.markers if each.transaction_version > 1])
                write_markers(self, late)

        asyncio.get_running_loop().call_later(LATE_S, again)
        return write_markers(self, markers)

    replace_rule(RelayStream, "write_markers", write_twice)


def unreplicated_markers_decide() -> None:
    """A leader takes a transaction for decided as soon as it has the marker itself."""
    from ottla_broker.log.producers.open_transactions import OpenTransactions  # noqa: PLC0415 - only for the broker

    def first_unstable_offset(self: OpenTransactions, _high_watermark: int) -> int | None:
        return next(iter(self._open), None)

    replace_rule(OpenTransactions, "first_unstable_offset", first_unstable_offset)


def ends_are_not_stored_before_markers() -> None:
    """A coordinator sends the markers of an end that only itself knows of."""
    from ottla_group_coordinator.transactions.shard_state import (  # noqa: PLC0415 - only for the coordinator
        TransactionShardState,
    )
    from ottla_group_coordinator.transactions.transaction import Transaction  # noqa: PLC0415
    from ottla_group_coordinator.transactions.transaction_state import PREPARED  # noqa: PLC0415

    write = TransactionShardState.write

    def write_but_for_ends(
        self: TransactionShardState, turn: Any, transactional_id: str, transaction: Transaction
    ) -> None:
        write(self, turn, transactional_id, transaction)
        if transaction.state in PREPARED:
            turn.records.pop()

    replace_rule(TransactionShardState, "write", write_but_for_ends)


def offsets_of_aborted_transactions_count() -> None:
    """A group's offsets that are pending count whichever way their transaction ends."""

    from ottla_core.wire.control_records import TransactionMarker  # noqa: PLC0415
    from ottla_group_coordinator.offsets import transactions  # noqa: PLC0415 - only for the coordinator

    replay_marker = transactions.replay_marker

    def replay_as_commit(shard: Any, marker: TransactionMarker, timestamp_ms: int) -> None:
        replay_marker(shard, replace(marker, is_commit=True), timestamp_ms)

    replace_rule(transactions, "replay_marker", replay_as_commit)


def aborts_are_not_told() -> None:
    """A log does not note which transactions were aborted, so readers of committed records are not told of them."""
    from ottla_broker.log.partition.log_transactions import LogTransactions  # noqa: PLC0415 - only for the broker

    def note_ended(_self: LogTransactions, _ended: Any) -> None:
        """Forget it."""

    replace_rule(LogTransactions, "_note_ended", note_ended)


def anybody_may_end() -> None:
    """A coordinator ends a transaction for whoever knows its id, under whatever epoch."""
    from ottla_group_coordinator.transactions import ending  # noqa: PLC0415 - only for the coordinator

    for name in ("_must_end", "_must_end_raising_epochs"):
        must_end = getattr(ending, name)

        def end(transaction: Any, asked: Any, *, is_commit: bool, must_end: Callable[..., bool] = must_end) -> bool:
            del asked
            return must_end(transaction, transaction.client_identity, is_commit=is_commit)

        replace_rule(ending, name, end)


TRANSACTION_RULES: dict[str, Callable[[], None]] = {
    "refused-transactions-begin-all-the-same": refused_transactions_begin_all_the_same,
    "markers-end-whatever-is-open": markers_end_whatever_is_open,
    "markers-come-again-late": markers_come_again_late,
    "unreplicated-markers-decide": unreplicated_markers_decide,
    "ends-are-not-stored-before-markers": ends_are_not_stored_before_markers,
    "offsets-of-aborted-transactions-count": offsets_of_aborted_transactions_count,
    "aborts-are-not-told": aborts_are_not_told,
    "anybody-may-end": anybody_may_end,
}
