"""Guards for partitions in which a transaction has not begun, taken before there is a batch for them.

What the coordinator says of a partition afterwards, by adding it or by confirming it, holds as long as the guard
stands, so that the first batch needs no question of its own.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

from ottla_broker.log.producers.verification import VerificationGuard
from ottla_broker.partition_table import PartitionTable
from ottla_core.errors import KafkaError
from ottla_core.topic_partition import TopicPartition

NO_SEQUENCE_YET: Final = 2**31 - 1
"""The lowest sequence of a guard without a batch: the first one that comes lowers it."""

Guards = Mapping[TopicPartition, VerificationGuard]


def take_early_guards(
    partitions: PartitionTable, producer_id: int, producer_epoch: int, names: Iterable[TopicPartition]
) -> Guards:
    """Take guards for those partitions that this broker leads."""
    found: dict[TopicPartition, VerificationGuard] = {}
    for name in names:
        with contextlib.suppress(KafkaError):
            found[name] = partitions.leader_of(*name).begin_verification(
                producer_id, producer_epoch, NO_SEQUENCE_YET, supports_epoch_bump=False
            )
    return found
