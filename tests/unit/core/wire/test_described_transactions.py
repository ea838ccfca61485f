"""DescribeTransactions: what has not begun has no time, on the wire -1 as in Kafka."""

import struct
from dataclasses import fields

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from ottla_core.wire.conversion import message_of
from ottla_core.wire.described_transactions import (
    DESCRIBE_TRANSACTIONS_KEY,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla_core.wire.messages import message_codec

CODEC = message_codec(DESCRIBE_TRANSACTIONS_KEY, 0)


def test_what_has_not_begun_is_written_as_minus_one_and_read_again() -> None:
    idle = message_of(TransactionState, error_code=ErrorCode.none, transactional_id="t", producer_id=7)
    response = message_of(DescribeTransactionsResponse, transaction_states=(idle,))
    assert idle.transaction_start_time is None
    frame = CODEC.encode_response(1, response)
    assert struct.pack(">qq", -1, 7) in frame
    assert CODEC.read_response(frame) == response


def test_the_fields_are_kios() -> None:
    kios = load_response_schema(DESCRIBE_TRANSACTIONS_KEY, 0)
    assert [each.name for each in fields(DescribeTransactionsResponse)] == [each.name for each in fields(kios)]
    assert CODEC.encode_response(1, message_of(kios)) == CODEC.encode_response(
        1, message_of(DescribeTransactionsResponse)
    )
