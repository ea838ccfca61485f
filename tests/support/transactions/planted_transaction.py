"""A transaction that hangs, planted in the files of a log, as no client can make one."""

import time
from pathlib import Path

from ottla_core.wire.records import Record, encode_batch

HOUR_MS = 3_600_000
CHECKED_AT_STOP = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint")
"""Files of a log directory by which a broker knows that it need not read its logs again."""


def plant(partition_directory: Path, *, offset: int, producer_id: int, epoch: int) -> None:
    """Append an hour-old batch of a transaction that nobody will end. The broker must not run.

    Args:
        offset: the log's end.
    """
    record = Record(offset, round(time.time() * 1000) - HOUR_MS, None, b"planted")
    batch = encode_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
        leader_epoch=0,
    )
    segment = max(partition_directory.glob("*.log"))
    with segment.open("ab") as file:
        file.write(batch)
    for name in CHECKED_AT_STOP:
        (partition_directory.parent / name).unlink(missing_ok=True)
    for snapshot in partition_directory.glob("*.snapshot"):
        snapshot.unlink()
