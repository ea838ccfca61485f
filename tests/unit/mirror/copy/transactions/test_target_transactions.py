"""What the target answers is read by the version in which it was asked."""

import asyncio
from typing import Any, cast

from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import AsyncCluster
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import message_codec
from ottla_mirror.copy.copy_settings import CopySettings, TransactionSettings
from ottla_mirror.copy.transactions.target_transactions import TargetTransactions
from ottla_mirror.copy.transactions.transaction_rules import Producer

END_TXN = 26


class UpgradedMeanwhile:
    """A cluster of which another partition finds the newer version while this one's transaction ends."""

    requests: TargetTransactions

    async def ask_transaction_coordinator(self, transactional_id: str, request: Any, **_: Any) -> Any:
        self.requests.is_version_2 = not self.requests.is_version_2
        codec = message_codec(END_TXN, request.__version__)
        fields = {"producer_id": 7, "producer_epoch": 4} if request.__version__ >= 5 else {}
        return message_of(codec.response_type, error_code=ErrorCode.none, **fields)


def test_an_end_is_understood_though_the_version_of_transactions_is_raised_meanwhile() -> None:
    for is_version_2, end_version, following in ((False, 4, None), (True, 5, Producer(7, 4))):
        cluster = UpgradedMeanwhile()
        settings = CopySettings(source_alias="A", transactions=TransactionSettings())
        requests = cluster.requests = TargetTransactions([cast("AsyncCluster", cluster)], settings)
        requests.is_version_2, requests._end_version = is_version_2, end_version
        found = asyncio.run(requests.end("ottla-mirror/A/t/0", Producer(7, 3), commits=False))
        assert found == (ErrorCode.none, following)


def test_a_batch_is_not_waited_for_whose_connection_failed_unexpectedly() -> None:
    class Failing:
        async def open_pipelined(self, broker_id: int) -> None:
            raise RuntimeError("a bug")

    async def outcome() -> object:
        settings = CopySettings(source_alias="A", transactions=TransactionSettings())
        requests = TargetTransactions([cast("AsyncCluster", Failing())], settings)
        told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        requests.produce(1, "ottla-mirror/A/t/0", ("t", 0), b"a batch", told.set_result)
        async with asyncio.timeout(10):
            return await told

    assert asyncio.run(outcome()) == "it failed unexpectedly; the worker's log says why"
