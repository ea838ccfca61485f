"""The cluster's id: drawn once, by whichever process comes first, and never changed.

Where only controllers may write it, the others wait for one to draw it.

Whoever draws it for a cluster of which there is nothing yet also lets it begin at the newest levels of features.
"""

import asyncio

from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import READ_TIMEOUT_S, RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdAccessDenied, EtcdUnavailable, WriteOutcomeUnknown
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.features import newest_features
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.kafka_uuid import uuid_text
from ottla_core.random_ids import random_uuid


async def ensure_cluster_id(etcd: EtcdClient, cluster_name: str) -> str:
    """Return the cluster's id, writing a fresh one if there is none.

    Raises:
        EtcdUnavailable: etcd did not answer within `READ_TIMEOUT_S`.
        EtcdError: etcd refuses.
    """
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await _ensure(etcd, KeySpace(cluster_name), uuid_text(random_uuid()))
    except TimeoutError:
        raise EtcdUnavailable(
            f"etcd took no write of the cluster's id within {READ_TIMEOUT_S:.0f} s, and no controller has written it"
        ) from None


async def _ensure(etcd: EtcdClient, keys: KeySpace, drawn: str) -> str:
    put_id = op.put(keys.cluster_id, codec.encode_cluster_id(drawn))
    put_features = op.put(keys.features, codec.encode_features(newest_features()))
    while True:
        if (present := await etcd.read(keys.cluster_id)) is not None:
            return codec.decode_cluster_id(present.value)
        try:
            result = await etcd.transaction(
                [op.none_below(keys.prefix)], [put_id, put_features], [op.read(keys.cluster_id)]
            )
            if not result.succeeded and result.reads[0] is None:  # what is there may be of an earlier release
                result = await etcd.transaction(
                    [op.created_at(keys.cluster_id, op.ABSENT)], [put_id], [op.read(keys.cluster_id)]
                )
        except (WriteOutcomeUnknown, EtcdAccessDenied):
            await asyncio.sleep(RETRY_DELAY_S)
            continue
        if result.succeeded:
            return drawn
        if (found := result.reads[0]) is not None:
            return codec.decode_cluster_id(found.value)
