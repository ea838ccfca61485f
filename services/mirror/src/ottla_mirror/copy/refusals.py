"""What an error of the target means for the batch that was sent."""

from enum import Enum, auto
from typing import Final

from kio.schema.errors import ErrorCode


class Meaning(Enum):
    """What is to be done after an error.

    Attributes:
        ACCEPTED: there is none.
        AGAIN: the same batch is sent again, to the leader as it is known by then.
        LOOK: it is unclear what the target has; read its log.
        REFUSED: the target will not take this batch, ever.
    """

    ACCEPTED = auto()
    AGAIN = auto()
    LOOK = auto()
    REFUSED = auto()


_LOOK: Final = frozenset(
    (
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.duplicate_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
    )
)
_REFUSED: Final = frozenset(
    (
        ErrorCode.corrupt_message,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_timestamp,
        ErrorCode.invalid_record,
        ErrorCode.policy_violation,
        ErrorCode.unsupported_compression_type,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_request,
        ErrorCode.invalid_required_acks,
    )
)


def meaning_of(code: ErrorCode) -> Meaning:
    """Return what to do. What we do not know may pass: a batch is refused for known reasons only."""
    if code is ErrorCode.none:
        return Meaning.ACCEPTED
    if code in _LOOK:
        return Meaning.LOOK
    if code in _REFUSED:
        return Meaning.REFUSED
    return Meaning.AGAIN
