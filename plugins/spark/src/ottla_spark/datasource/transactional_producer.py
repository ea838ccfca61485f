"""A producer that writes one batch in one transaction, with the batch's number in it.

`claim` comes first: it has brokers end what an earlier producer with the same transactional id has begun, and refuse
whatever that one still sends. What is read of the numbers after that is final.
"""

from contextlib import suppress
from time import monotonic

from confluent_kafka import KafkaError, KafkaException

from ottla_sdk import ConnectError, FatalError, RetriableError
from ottla_spark.datasource.batch_numbers import WrittenBatch
from ottla_spark.datasource.client_options import BOOTSTRAP, Settings
from ottla_spark.datasource.errors import ClusterUnreachable
from ottla_spark.datasource.transaction_plan import TRANSACTION_TIMEOUT
from ottla_spark.datasource.writing_producer import RecordProducer

TRANSACTIONAL_ID = "transactional.id"
CLAIM_TIMEOUT_S = 60.0
"""The end of a former transaction may take as long as a broker that is away takes to be replaced."""
COMMIT_TIMEOUT_S = 120.0
ATTEMPT_S = 10.0
ABORT_TIMEOUT_S = 10.0
NUMBERS_PARTITION = 0


class TransactionsRefused(FatalError):
    """The brokers do not let this client write in transactions, or have none."""


class Superseded(RetriableError):
    """Another attempt at the batch has begun, or the transaction was given up because it took too long."""


_SUPERSEDED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - public
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    }
)
_ADVICE = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "allow the user to write and describe it; a cluster of Ottla "
    "below level 4 has no transactions (`ottla cluster features upgrade`)",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: f"lower kafka.{TRANSACTION_TIMEOUT}, or raise the brokers' "
    "transaction.max.timeout.ms",
    KafkaError.UNSUPPORTED_VERSION: "the brokers have no transactions",
    KafkaError._UNSUPPORTED_FEATURE: "the brokers have no transactions",  # noqa: SLF001 - public
}


class TransactionalProducer(RecordProducer):
    """Writes batches under one transactional id, one after the other.

    Attributes:
        last: the batch that was committed last, as far as this producer knows; None before it has asked.
    """

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        super().__init__({**settings, TRANSACTIONAL_ID: transactional_id})
        self.last: WrittenBatch | None = None
        self._id = transactional_id

    def claim(self, topic: str) -> None:
        """Become the one producer that may write under the id.

        Args:
            topic: any that the client may see, to learn soon whether brokers answer.

        Raises:
            ClusterUnreachable: none does.
            ConnectError: the brokers do not let it.
        """
        self._connect(topic)
        deadline_s = monotonic() + CLAIM_TIMEOUT_S
        while True:
            try:
                self._producer.init_transactions(ATTEMPT_S)
            except KafkaException as error:
                if not error.args[0].retriable() or monotonic() > deadline_s:
                    raise self._error_of(error.args[0], "cannot be taken over") from None
            else:
                return

    def begin(self) -> None:
        """Begin a transaction."""
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._error_of(error.args[0], "cannot begin a transaction") from None

    def commit(self, batch: WrittenBatch, numbers_topic: str) -> None:
        """Write the batch's number, and commit it together with all records since `begin`.

        Raises:
            ConnectError: nothing is committed; after `RetriableError` it may have been, which the next attempt finds.
        """
        self.send([(numbers_topic, batch.to_value(), self._id.encode(), NUMBERS_PARTITION)])
        self.finish()
        deadline_s = monotonic() + COMMIT_TIMEOUT_S
        while True:
            try:
                self._producer.commit_transaction(ATTEMPT_S)
            except KafkaException as error:
                if not error.args[0].retriable() or monotonic() > deadline_s:
                    raise self._error_of(error.args[0], "cannot commit") from None
            else:
                self.last = batch
                return

    def abort(self) -> None:
        """Have the brokers forget the transaction now; those that are away do so when it times out."""
        # It may be superseded, or brokers may be away: nothing of it counts in any case.
        with suppress(KafkaException):
            self._producer.abort_transaction(ABORT_TIMEOUT_S)

    def _error_of(self, error: KafkaError, what: str) -> ConnectError:
        code, brokers = error.code(), self.settings[BOOTSTRAP]
        said = f"the transactional id {self._id!r} {what} at {brokers}: {error.str()}"
        if code in _ADVICE:
            return TransactionsRefused(f"{said}; {_ADVICE[code]}")
        if code in _SUPERSEDED:
            return Superseded(
                f"{said}; another attempt has taken over, or the batch took longer than kafka.{TRANSACTION_TIMEOUT} "
                f"({self.settings[TRANSACTION_TIMEOUT]} ms)"
            )
        if error.retriable() or code == KafkaError._TIMED_OUT:  # noqa: SLF001 - public
            return ClusterUnreachable(said)
        return RetriableError(said)
