"""How producer ids are handed out: in blocks, each to one broker, none twice. Pure.

A broker numbers its idempotent producers from its block without asking; what it has not used when it stops is
lost, which 2^63 ids allow. Source: Kafka's ProducerIdControlManager.
"""

from ottla_core.cluster.controller_rpc.controller_api import ProducerIdBlock
from ottla_core.errors import KafkaError

BLOCK_LENGTH = 1000
PRODUCER_ID_MAX = 2**63 - 1
BELIEVABLE_ID_MAX = 2**62
PRODUCER_ID_LEAP = 2**32
"""How far above the highest id in the logs a count goes on that is known to be old.

More ids have been given away than are in logs: transactional ids keep theirs for days in the values of
`__transaction_state`, and some have not been used yet.
"""


def next_block(next_producer_id: int, highest_in_logs: int) -> ProducerIdBlock:
    """Return the block that begins at the first id never handed out, or well above it.

    Args:
        next_producer_id: by what is counted in etcd, which may have been restored from a backup.
        highest_in_logs: that brokers have found; not believed where no count can have come, as clients may write
            any id.

    Raises:
        KafkaError: there are no ids left.
    """
    if next_producer_id <= highest_in_logs <= BELIEVABLE_ID_MAX:
        next_producer_id = highest_in_logs + PRODUCER_ID_LEAP
    if next_producer_id > PRODUCER_ID_MAX - BLOCK_LENGTH:
        raise KafkaError(f"no producer ids are left after {next_producer_id}")
    return ProducerIdBlock(first=next_producer_id, length=BLOCK_LENGTH)
