"""What a client is told that asks for a producer id when the controller gives the broker no block of them."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.producer_ids import ProducerIds
from ottla_core.cluster.controller_rpc.controller_api import ProducerIdBlock
from ottla_core.errors import BrokerIdNotRegistered, KafkaError, NotController, RequestTimedOut, StaleBrokerEpoch
from tests.support.broker.broker_parts import Registered, ask, broker_of
from tests.support.clients.raw_requests import init_producer_id_request
from tests.support.groups.group_cluster import BROKER, StatedFeed, broker_member, group_state


class Controller:
    """Refuses a number of times, then gives a block."""

    def __init__(self, *refusals: KafkaError) -> None:
        self._refusals = list(refusals)

    async def allocate_producer_ids(self, *_: object, **__: object) -> ProducerIdBlock:
        if self._refusals:
            raise self._refusals.pop()
        return ProducerIdBlock(first=1000, length=10)


def broker_with(controller: Any) -> Any:
    membership: Any = Registered(broker_member(BROKER)).member
    ids = ProducerIds(controller, membership, BROKER, lambda: -1)
    return broker_of(StatedFeed(group_state()), producer_ids=ids)


@pytest.mark.parametrize(
    "refusal", [StaleBrokerEpoch, BrokerIdNotRegistered, NotController, RequestTimedOut, KafkaError]
)
async def test_a_client_asks_again_whatever_the_controller_says_to_the_broker(refusal: type[KafkaError]) -> None:
    broker = broker_with(Controller(refusal("not now")))

    assert (await ask(broker, init_producer_id_request())).error_code is ErrorCode.coordinator_load_in_progress
    answer = await ask(broker, init_producer_id_request())
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.none, 1000, 0)
