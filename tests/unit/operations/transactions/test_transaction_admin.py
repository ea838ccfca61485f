"""The order in which partitions and coordinators are asked about transactions that hang."""

from collections.abc import Iterable
from typing import Any

import pytest

from ottla_core.topic_partition import TopicPartition
from ottla_operations.transactions import transaction_admin
from ottla_operations.transactions.transaction_admin import hanging_transactions
from ottla_operations.transactions.transaction_view import OpenTransaction

NAMES = [TopicPartition("t", 0), TopicPartition("t", 1)]


def opened(partition: TopicPartition) -> OpenTransaction:
    return OpenTransaction(partition=partition, producer_id=7, producer_epoch=0, start_offset=1, last_written_ms=0)


def test_partitions_are_asked_again_after_their_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction in the first partition ends meanwhile."""
    asked: list[str] = []

    def open_transactions(_admin: Any, _view: Any, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        asked.append("partitions")
        return [opened(each) for each in sorted(partitions) if asked == ["partitions"] or each != NAMES[0]]

    def list_transactions(*_: Any, **__: Any) -> list[Any]:
        asked.append("coordinators")
        return []

    monkeypatch.setattr(transaction_admin, "open_transactions", open_transactions)
    monkeypatch.setattr(transaction_admin, "list_transactions", list_transactions)
    monkeypatch.setattr(transaction_admin, "describe_transactions", lambda *_: {})
    nothing: Any = None
    assert hanging_transactions(nothing, nothing, NAMES, timeout_max_ms=0) == [opened(NAMES[1])]
    assert asked == ["partitions", "coordinators", "partitions"]
