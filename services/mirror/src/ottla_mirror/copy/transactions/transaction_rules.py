"""What transactions of copies are called, when they end, and what the answers of a coordinator mean. Pure.

A transactional id belongs to one partition of a source at one target, whoever copies it: who takes it over asks the
coordinator for a producer under that id, by which the former owner is fenced and what it has left open is aborted.
It is named after the source alone, as the topic of the maps is, so that two workers that call the target otherwise
have the same ids.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ottla_mirror.copy.copy_settings import TransactionSettings
from ottla_mirror.model import SourcePartition

ID_PREFIX: Final = "ottla-mirror/"
PATIENCE_SHARE: Final = 0.5
"""A transaction that cannot go on is given up after this part of the time after which the target would abort it."""


class Producer(NamedTuple):
    """A producer of the target: one owner of a transactional id, in transaction version 2 for one transaction."""

    id: int
    epoch: int


class Answer(Enum):
    """What an answer of the coordinator means.

    Attributes:
        DONE: it has done what was asked.
        AGAIN: the same may be asked again: it moves, or still ends the transaction before.
        FENCED: somebody else has the transactional id by now, or the transaction has lasted too long.
        ABORT: the transaction cannot go on, another one may.
        REFUSED: somebody has to change something first: rights, or settings.
    """

    DONE = auto()
    AGAIN = auto()
    FENCED = auto()
    ABORT = auto()
    REFUSED = auto()


_AGAIN: Final = frozenset(
    (
        ErrorCode.broker_not_available,
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.leader_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    )
)
_FENCED: Final = frozenset(
    (
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.producer_fenced,
    )
)
_ABORT: Final = frozenset(
    (
        ErrorCode.invalid_txn_state,
        ErrorCode.operation_not_attempted,
        ErrorCode.transaction_abortable,
        ErrorCode.transactional_id_not_found,
        ErrorCode.unknown_producer_id,
    )
)


def meaning_of_answer(code: ErrorCode) -> Answer:
    """Return what an answer about a transaction means; what we do not know is told, and tried again later."""
    if code is ErrorCode.none:
        return Answer.DONE
    if code in _AGAIN:
        return Answer.AGAIN
    if code in _FENCED:
        return Answer.FENCED
    return Answer.ABORT if code in _ABORT else Answer.REFUSED


def transactional_id(source_alias: str, partition: SourcePartition) -> str:
    """Return the id under which a partition is copied; neither aliases nor topics have a slash."""
    return f"{ID_PREFIX}{source_alias}/{partition.topic}/{partition.partition}"


def is_to_end(
    settings: TransactionSettings, *, age_s: float, sent_bytes: int, is_wanted: bool, is_refused_next: bool
) -> bool:
    """Return whether nothing more is to be sent in a transaction.

    Args:
        settings: how large transactions are.
        age_s: since it began.
        sent_bytes: of the batches in it.
        is_wanted: whether somebody waits for its end.
        is_refused_next: whether the next batch is one that the target has refused before. It is sent in a transaction
            of its own, as its refusal would have all the others aborted again.
    """
    return is_wanted or is_refused_next or age_s >= settings.interval_s or sent_bytes >= settings.bytes_max


def may_commit(*, sent_end: int, acknowledged_end: int) -> bool:
    """Return whether a position may be committed.

    A batch without an answer may be in the log all the same. It would be committed with the others, and copied once
    more behind a position that knows nothing of it.

    Args:
        sent_end: the source offset up to which batches were sent in this transaction, whatever became of them.
        acknowledged_end: that up to which everything is acknowledged.
    """
    return acknowledged_end >= sent_end
