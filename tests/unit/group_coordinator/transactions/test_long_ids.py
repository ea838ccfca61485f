"""A transactional id that its record cannot hold is refused, instead of costing the shard its memory."""

from datetime import timedelta

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire import transaction_responses as api
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.records.field_codec import STRING_BYTES_MAX
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.records import encode_key
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.settings import TransactionSettings
from ottla_group_coordinator.transactions.shard import TransactionShard

VERSION = 5
NOW_MS = 1_700_000_000_000


def init(transactional_id: str) -> Turn:
    shard = TransactionShard(settings=TransactionSettings(), cluster_state=ClusterState())
    message = message_of(
        load_request_schema(api.INIT_PRODUCER_ID, VERSION),
        transactional_id=transactional_id,
        transaction_timeout=timedelta(minutes=1),
        producer_id=-1,
        producer_epoch=-1,
    )
    request = TransactionRequest(
        token=1,
        api_key=api.INIT_PRODUCER_ID,
        api_version=VERSION,
        client_id="",
        message=message,
        fresh_producer_id=7,
    )
    return shard.handle(request, NOW_MS)


@pytest.mark.parametrize(
    "transactional_id", ["x" * (STRING_BYTES_MAX + 1), "ä" * STRING_BYTES_MAX], ids=["longer", "longer in bytes"]
)
def test_a_longer_transactional_id_is_refused(transactional_id: str) -> None:
    turn = init(transactional_id)
    assert turn.answers[0].response.error_code is ErrorCode.invalid_request
    assert not turn.records


def test_the_longest_transactional_id_is_stored() -> None:
    turn = init("x" * STRING_BYTES_MAX)
    assert turn.answers[0].response.error_code is ErrorCode.none
    assert [len(encode_key(record.key)) for record in turn.records] == [2 + 2 + STRING_BYTES_MAX]
