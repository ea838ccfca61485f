"""The cluster's id: drawn once, by whichever process comes first, and never changed."""

import asyncio

from ottla_core.cluster import codec
from ottla_core.cluster import etcd_operations as op
from ottla_core.cluster.etcd import EtcdClient
from ottla_core.cluster.etcd_connection import READ_TIMEOUT_S, RETRY_DELAY_S
from ottla_core.cluster.etcd_errors import EtcdUnavailable, WriteOutcomeUnknown
from ottla_core.cluster.keys import KeySpace
from ottla_core.kafka_uuid import random_uuid, uuid_text


async def ensure_cluster_id(etcd: EtcdClient, cluster_name: str) -> str:
    """Return the cluster's id, writing a fresh one if there is none.

    Raises:
        EtcdUnavailable: etcd did not answer within `READ_TIMEOUT_S`.
        EtcdError: etcd refuses.
    """
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await _ensure(etcd, KeySpace(cluster_name).cluster_id, uuid_text(random_uuid()))
    except TimeoutError:
        raise EtcdUnavailable(f"etcd took no write within {READ_TIMEOUT_S:.0f} s") from None


async def _ensure(etcd: EtcdClient, key: str, drawn: str) -> str:
    while True:
        try:
            result = await etcd.transaction(
                [op.created_at(key, op.ABSENT)], [op.put(key, codec.encode_cluster_id(drawn))], [op.read(key)]
            )
        except WriteOutcomeUnknown:
            await asyncio.sleep(RETRY_DELAY_S)
            continue
        if result.succeeded:
            return drawn
        found = result.reads[0]
        assert found is not None, "the key exists, or the transaction had succeeded"
        return codec.decode_cluster_id(found.value)
