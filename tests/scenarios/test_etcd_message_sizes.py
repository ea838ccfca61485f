"""What is larger than a process takes in one message of etcd comes in smaller ones, or is an error that says so."""

import asyncio
from contextlib import aclosing

import pytest

from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import CHANNEL_OPTIONS, Endpoint
from ottla_core.cluster.etcd.errors import EtcdAnswerTooLarge, WatchHistoryLost, WriteOutcomeUnknown
from tests.support.clusters.etcd_process import EtcdProcess

MIB = 1024 * 1024
TRANSACTIONS, KEYS = 60, 100
VALUE = b"v" * 1024
"""Six MiB in all; etcd sends fragments of two."""


def client_of(etcd: EtcdProcess, received_bytes_max: int) -> EtcdClient:
    bound = ("grpc.max_receive_message_length", received_bytes_max)
    options = [option for option in CHANNEL_OPTIONS if option[0] != bound[0]] + [bound]
    return EtcdClient([etcd.endpoint], open_endpoint=lambda target, secure: Endpoint(target, secure, options))


@pytest.fixture
async def filled(etcd: EtcdClient) -> int:
    """The revision of the first of many transactions."""
    revisions = [
        (await etcd.transaction([], [op.put(f"/t/{number:03}/{key:03}", VALUE) for key in range(KEYS)])).revision
        for number in range(TRANSACTIONS)
    ]
    assert revisions == list(range(revisions[0], revisions[0] + TRANSACTIONS))
    return revisions[0]


async def test_changes_that_are_too_many_for_a_message_come_in_whole_revisions(
    etcd_process: EtcdProcess, filled: int
) -> None:
    client = client_of(etcd_process, 3 * MIB)
    keys, revision = [], filled - 1
    async with asyncio.timeout(30), aclosing(client.watch_prefix("/t/", filled)) as batches:
        async for batch in batches:
            assert {change.mod_revision for change in batch.changes} == set(range(revision + 1, batch.revision + 1))
            keys += [change.key for change in batch.changes]
            revision = batch.revision
            if revision == filled + TRANSACTIONS - 1:
                break
    await client.close()
    assert keys == [f"/t/{number:03}/{key:03}" for number in range(TRANSACTIONS) for key in range(KEYS)]


async def test_fragments_that_are_still_too_large_have_the_state_listed_anew(
    etcd_process: EtcdProcess, filled: int
) -> None:
    client = client_of(etcd_process, MIB)
    async with asyncio.timeout(30), aclosing(client.watch_prefix("/t/", filled)) as batches:
        with pytest.raises(WatchHistoryLost, match="too large for a message: RESOURCE_EXHAUSTED"):
            await anext(batches)
    listing = await client.list_prefix("/t/")
    await client.close()
    assert len(listing.entries) == TRANSACTIONS * KEYS


async def test_a_value_that_is_too_large_is_an_error_and_a_write_with_such_an_answer_may_have_happened(
    etcd_process: EtcdProcess, etcd: EtcdClient
) -> None:
    await etcd.transaction([], [op.put("/large", b"x" * MIB)])
    client = client_of(etcd_process, MIB // 2)
    with pytest.raises(EtcdAnswerTooLarge, match="too large to be taken"):
        await client.list_prefix("/large")
    with pytest.raises(WriteOutcomeUnknown):
        await client.transaction([], [op.put("/other", b"written"), op.read("/large")])
    found = await client.read("/other")
    await client.close()
    assert found is not None
    assert found.value == b"written"
