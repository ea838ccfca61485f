"""Refusals of requests about transactions, and what older clients are told."""

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from ottla_core.errors import CodedError
from ottla_core.wire import transaction_responses as api
from ottla_core.wire.conversion import message_of
from ottla_core.wire.group_responses import error_response
from ottla_core.wire.transaction_responses import understood_code

FENCED = ErrorCode.producer_fenced


@pytest.mark.parametrize(
    ("api_key", "first"),
    [(api.INIT_PRODUCER_ID, 4), (api.ADD_PARTITIONS_TO_TXN, 2), (api.ADD_OFFSETS_TO_TXN, 2), (api.END_TXN, 2)],
)
def test_clients_that_do_not_know_of_fencing_are_told_that_their_epoch_is_invalid(api_key: int, first: int) -> None:
    assert understood_code(api_key, first - 1, FENCED) is ErrorCode.invalid_producer_epoch
    assert understood_code(api_key, first, FENCED) is FENCED


def test_clients_that_give_up_while_a_shard_is_loaded_are_told_that_there_is_no_coordinator() -> None:
    loads = ErrorCode.coordinator_load_in_progress
    assert understood_code(api.TXN_OFFSET_COMMIT, 1, loads) is ErrorCode.coordinator_not_available
    assert understood_code(api.TXN_OFFSET_COMMIT, 2, loads) is loads


def test_a_refused_producer_is_given_no_id() -> None:
    request = message_of(load_request_schema(api.INIT_PRODUCER_ID, 4))
    refused = error_response(api.INIT_PRODUCER_ID, 4, request, CodedError(FENCED, "there is a newer one"))
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (FENCED, -1, -1)  # type: ignore[attr-defined]
