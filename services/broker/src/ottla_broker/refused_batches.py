"""Which batches of idempotent producers were refused for the time being, so that none behind them gets ahead. Pure.

A producer has several requests on the way. If the first is refused because the partition has no leader here or too
few replicas, and the reason is gone when the second arrives, that one is out of sequence. librdkafka then gives all
that is unanswered new sequence numbers under a new producer epoch, also a batch that a former leader had stored
without being able to answer, and that is in the log twice from then on. So whatever is behind a refused batch is
refused for the same reason: the producer sends both again, in order.

This holds for the requests that were on the way, hence for a short time only.
"""

import struct
from collections import OrderedDict
from copy import copy
from dataclasses import dataclass
from uuid import UUID

from ottla_broker.log.producers.producer_state import ProducerEntry, ProducerStates
from ottla_core.errors import KafkaError
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES, Buffer

REMEMBERED_SECONDS = 10.0
REMEMBERED_MAX = 10_000

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION = 43
"""Where a batch's header has the producer's id, its epoch and the first sequence number."""

Key = tuple[str | UUID, int, int, int]
"""Topic, partition, producer id and producer epoch."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    base_sequence: int
    error: KafkaError
    forgotten_s: float


class RefusedBatches:
    """The first refused batch of each producer, by partition."""

    def __init__(self) -> None:
        self._refusals: OrderedDict[Key, _Refusal] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refusals)

    def check(self, topic: str | UUID, index: int, records: Buffer, now_s: float, producers: ProducerStates) -> None:
        """See that no earlier batch of the same producer has still to come again.

        Args:
            topic: as the request names it.
            index: the partition.
            records: the batch, whose header may be garbage.
            now_s: the monotonic clock.
            producers: what the partition's log knows; another leader may have taken the refused batch meanwhile.

        Raises:
            KafkaError: the reason why an earlier batch was refused.
        """
        if not self._refusals:
            return
        key, base_sequence = _producer_of(topic, index, records)
        refusal = None if key is None else self._refusals.get(key)
        if refusal is None or key is None:
            return
        if base_sequence < refusal.base_sequence and now_s < refusal.forgotten_s:
            return
        is_over = now_s >= refusal.forgotten_s or base_sequence == refusal.base_sequence
        if is_over or _is_nothing_missing(producers.get(key[2]), key[3], base_sequence):
            del self._refusals[key]
        else:
            raise copy(refusal.error)  # the one that is kept must not collect tracebacks, and all they refer to

    def refused(self, topic: str | UUID, index: int, records: Buffer, error: KafkaError, now_s: float) -> None:
        """Note that a batch was refused for a reason that may pass."""
        key, base_sequence = _producer_of(topic, index, records)
        if key is None:
            return
        first = self._refusals.get(key)
        if first is not None and first.base_sequence != base_sequence and now_s < first.forgotten_s:
            return
        self._refusals[key] = _Refusal(base_sequence, copy(error), now_s + REMEMBERED_SECONDS)
        if len(self._refusals) > REMEMBERED_MAX:
            self._refusals.popitem(last=False)


def _is_nothing_missing(known: ProducerEntry | None, epoch: int, base_sequence: int) -> bool:
    """Return whether a log has everything that its producer sent before a batch."""
    return known is not None and known.producer_epoch == epoch and base_sequence <= known.last_sequence + 1


def _producer_of(topic: str | UUID, index: int, records: Buffer) -> tuple[Key | None, int]:
    """Return the producer of a batch, None if it is not idempotent, and the first sequence number."""
    if len(records) < HEADER_SIZE_BYTES:
        return None, -1
    producer_id, epoch, base_sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    if producer_id < 0:
        return None, -1
    return (topic, index, producer_id, epoch), base_sequence
