"""Reading a cluster's state from etcd, without a certificate or a password, in bounded pieces."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla_console.config.cluster_settings import ClusterSettings
from ottla_console.views.state_words import SECTIONS, SINGLE_KEYS, StateRow, state_rows, topic_names
from ottla_core.cluster.state.codec import decode_cluster_id
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.errors import OttlaError
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from ottla_core.cluster.etcd.client import EtcdClient
    from ottla_core.cluster.etcd.key_value import KeyValue

KEYS_MAX: Final = 10_000
"""More keys of a part are not read; the page says so."""
READ_WITHIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class StatePart:
    """A part of the state; `is_whole` unless it has more than `KEYS_MAX` keys."""

    rows: list[StateRow]
    is_whole: bool


async def read_part(settings: ClusterSettings, cluster_id: str, section: str) -> StatePart:
    """Return a part of the cluster's state in words.

    Args:
        settings: of the cluster.
        cluster_id: that etcd has to have the state of.
        section: a key of `SECTIONS`.

    Raises:
        OperationError: etcd cannot be read, or has no such cluster.
    """
    # It brings gRPC, which no other page needs.
    from ottla_core.cluster.etcd.client import EtcdClient  # noqa: PLC0415

    urls = [each.strip() for each in (settings.etcd_url or "").split(",") if each.strip()]
    space = KeySpace(settings.etcd_cluster_name)
    try:
        etcd = EtcdClient(urls)
    except (OttlaError, ValueError) as error:
        raise OperationError(f"etcd cannot be asked: {error}") from None
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            await _check_cluster(etcd, space, cluster_id)
            return await _part(etcd, space, section)
    except TimeoutError:
        raise OperationError(f"etcd did not answer within {READ_WITHIN_S:.0f} s") from None
    except OttlaError as error:
        raise OperationError(f"etcd cannot be read: {error}") from None
    finally:
        await etcd.close()


async def _check_cluster(etcd: "EtcdClient", space: KeySpace, cluster_id: str) -> None:
    found = await etcd.read(space.cluster_id)
    if found is None or decode_cluster_id(found.value) != cluster_id:
        raise OperationError(
            f"etcd has no state of this cluster below {space.prefix}; etcd.cluster.name is to be the brokers' "
            "cluster.name"
        )


async def _part(etcd: "EtcdClient", space: KeySpace, section: str) -> StatePart:
    _, below = SECTIONS[section]
    if not below:
        found = [await etcd.read(f"{space.prefix}{each}") for each in SINGLE_KEYS]
        return StatePart(state_rows(space, [each for each in found if each is not None], {}), True)
    topics = {}
    if section == "partitions":
        entries, _ = await _listed(etcd, f"{space.prefix}topics/")
        topics = topic_names(space, entries)
    entries, is_whole = await _listed(etcd, f"{space.prefix}{below}")
    return StatePart(state_rows(space, entries, topics), is_whole)


async def _listed(etcd: "EtcdClient", prefix: str) -> "tuple[list[KeyValue], bool]":
    entries: list[KeyValue] = []
    async with aclosing(etcd.pages(prefix)) as pages:
        async for page in pages:
            entries.extend(page.entries)
            if len(entries) > KEYS_MAX:
                return entries[:KEYS_MAX], False
    return entries, True
