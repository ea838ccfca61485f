"""What the rules of transactions refuse with; each error carries the code that clients understand."""

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError


class ConcurrentTransactions(KafkaError):
    """The id's last transaction is decided and not complete; come again."""

    code = ErrorCode.concurrent_transactions


class EndUnderWay(ConcurrentTransactions):
    """The same, said of a request that may wait until the transaction is complete.

    Attributes:
        transactional_id: whose.
    """

    def __init__(self, transactional_id: str) -> None:
        super().__init__()
        self.transactional_id = transactional_id


class ProducerFenced(KafkaError):
    """Another producer has begun with this transactional id, or the coordinator has ended the transaction."""

    code = ErrorCode.producer_fenced


class InvalidProducerIdMapping(KafkaError):
    """The transactional id is not known, or not with this producer id."""

    code = ErrorCode.invalid_producer_id_mapping


class InvalidTxnState(KafkaError):
    """The transaction cannot end like this in the state that it is in."""

    code = ErrorCode.invalid_txn_state


class InvalidTransactionTimeout(KafkaError):
    """The timeout is not above zero, or above `transaction.max.timeout.ms`."""

    code = ErrorCode.invalid_transaction_timeout


class TransactionTooLarge(KafkaError):
    """The transaction has so many partitions that its record would not fit into a batch."""
