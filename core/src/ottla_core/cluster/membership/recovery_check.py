"""Whether the state in etcd is all there: while `ottla cluster recover` or `restore` writes it, nobody may go by it.

To a broker, topics that are not written yet would look like deleted ones; it would set their logs aside.
"""

from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import Recovery
from ottla_core.errors import OttlaError


class RecoveryUnfinished(OttlaError):
    """A recovery of the cluster's state was begun and not finished; the process must not go by what there is."""


async def read_finished_recovery(etcd: EtcdClient, cluster_name: str) -> Recovery:
    """Return the last recovery of the cluster's state.

    Raises:
        RecoveryUnfinished: it is not finished.
        EtcdError: etcd cannot be read.
    """
    found = await etcd.read(KeySpace(cluster_name).recovery)
    recovery = Recovery() if found is None else codec.decode_recovery(found.value)
    if recovery.is_unfinished:
        raise RecoveryUnfinished(
            f"a recovery of the state of cluster {cluster_name} in etcd is under way, or was cut short; "
            "wait for it, or run the same `ottla cluster recover` or `ottla cluster restore` again"
        )
    return recovery
