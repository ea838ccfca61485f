"""When a transaction ends, what its id is, and what the coordinator's answers mean."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_mirror.copy.copy_settings import TransactionSettings
from ottla_mirror.copy.transactions.transaction_rules import (
    Answer,
    is_to_end,
    may_commit,
    meaning_of_answer,
    transactional_id,
)
from ottla_mirror.model import SourcePartition

SIZES = TransactionSettings(interval_s=2.0, bytes_max=1000)


def ends(*, age_s: float = 0.0, sent_bytes: int = 0, is_wanted: bool = False, is_refused_next: bool = False) -> bool:
    return is_to_end(SIZES, age_s=age_s, sent_bytes=sent_bytes, is_wanted=is_wanted, is_refused_next=is_refused_next)


def test_a_transaction_ends_by_time_by_size_or_because_somebody_waits() -> None:
    assert not ends(age_s=1.9, sent_bytes=999)
    assert ends(age_s=2.0)
    assert ends(sent_bytes=1000)
    assert ends(is_wanted=True)
    assert ends(is_refused_next=True)


def test_nothing_is_committed_before_all_that_was_sent_is_acknowledged() -> None:
    assert may_commit(sent_end=10, acknowledged_end=10)
    assert may_commit(sent_end=10, acknowledged_end=12)
    assert not may_commit(sent_end=10, acknowledged_end=9)


def test_an_id_is_that_of_the_partition_whoever_copies_it_and_whatever_life_of_the_topic() -> None:
    names = {
        transactional_id("A", SourcePartition(topic="a-1", topic_id=UUID(int=life), partition=number))
        for life in (1, 2)
        for number in (0, 1)
    }
    assert names == {"ottla-mirror/A/a-1/0", "ottla-mirror/A/a-1/1"}


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.none, Answer.DONE),
        (ErrorCode.concurrent_transactions, Answer.AGAIN),
        (ErrorCode.not_coordinator, Answer.AGAIN),
        (ErrorCode.producer_fenced, Answer.FENCED),
        (ErrorCode.invalid_producer_epoch, Answer.FENCED),
        (ErrorCode.transaction_abortable, Answer.ABORT),
        (ErrorCode.invalid_txn_state, Answer.ABORT),
        (ErrorCode.transactional_id_authorization_failed, Answer.REFUSED),
        (ErrorCode.unknown_server_error, Answer.REFUSED),
    ],
)
def test_what_an_answer_means(code: ErrorCode, meaning: Answer) -> None:
    assert meaning_of_answer(code) is meaning
