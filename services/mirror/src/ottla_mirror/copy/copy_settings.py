"""What a copier is told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ottla_mirror.model import SourcePartition

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """How a flow is copied whose records are written in transactions.

    Attributes:
        interval_s: after which a transaction ends, from its first batch on.
        bytes_max: of batches in a transaction; the last one may go beyond.
        timeout_ms: after which the target aborts a transaction that nobody has ended.
    """

    interval_s: float = 1.0
    bytes_max: int = 16 * MEBIBYTE
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySettings:
    """Settings of the copy of one flow in one worker.

    Attributes:
        buffer_bytes_max: of batches that are fetched and not acknowledged by the target, with what answers under way
            may bring, by all brokers of the source together.
        fetch_bytes_max: of one answer of the source.
        partition_bytes_max: of one partition in an answer; also, of what is fetched and not sent of a partition.
        fetch_wait_ms: how long the source may wait for records.
        request_bytes_max: of one request to the target, unless its only batch is larger.
        produce_timeout_ms: how long the target may wait for in-sync replicas.
        answer_timeout_s: after which an answer is given up, and the connection with it; more than both waits.
        save_interval_s: between saves of the position.
        backoff_s_min: before something that failed is tried again; doubled each time.
        backoff_s_max: the longest such pause.
        metadata_age_s_max: after which leaders are asked for anew though nothing has failed.
        start: where the copy of a partition begins that was never copied.
        is_added: whether a partition has been added to its topic since the copy of that began. All of it is copied
            whatever `start` says: its first records were written before anybody could look.
        source_alias: of the flow; transactional ids are named after it.
        transactions: how records are written in transactions; None for writing them without.
        dead_letter_topic: a topic of the target that takes what the target refuses; None for halting instead.
    """

    buffer_bytes_max: int = 64 * MEBIBYTE
    fetch_bytes_max: int = 8 * MEBIBYTE
    partition_bytes_max: int = MEBIBYTE
    fetch_wait_ms: int = 500
    request_bytes_max: int = MEBIBYTE
    produce_timeout_ms: int = 30_000
    answer_timeout_s: float = 45.0
    save_interval_s: float = 1.0
    backoff_s_min: float = 0.1
    backoff_s_max: float = 5.0
    metadata_age_s_max: float = 60.0
    start: Literal["earliest", "latest"] = "earliest"
    is_added: Callable[[SourcePartition], bool] = lambda _: False
    dead_letter_topic: str | None = None
    source_alias: str = ""
    transactions: TransactionSettings | None = None
