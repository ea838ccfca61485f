"""Attempts at etcd are timed by operation, however they end."""

import pytest

from ottla_core.cluster.etcd.connection import EtcdConnection
from ottla_core.cluster.etcd.errors import WriteOutcomeUnknown
from ottla_core.cluster.etcd.times import etcd_times
from ottla_proto.gen.etcd.rpc_pb2 import LeaseRevokeRequest
from tests.support.free_ports import free_port_block


async def test_an_attempt_that_fails_is_timed_under_the_name_of_its_operation() -> None:
    connection = EtcdConnection([f"127.0.0.1:{free_port_block(1)}"], credentials=None, username=None, password=None)
    before = etcd_times["LeaseRevoke"].reading().count
    with pytest.raises(WriteOutcomeUnknown):
        await connection.write(lambda endpoint: endpoint.lease.LeaseRevoke, LeaseRevokeRequest(id=1))
    await connection.close()
    assert etcd_times["LeaseRevoke"].reading().count == before + 1
