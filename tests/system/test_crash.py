"""kill -9 under load, again and again: what was acknowledged stays, in order, once."""

import os

import pytest

from tests.support.clients.acknowledged_load import AcknowledgedLoad, read_everything
from tests.support.clients.delivery_check import assert_delivered
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import RestartableBroker

pytestmark = pytest.mark.slow

CRASHES = int(os.environ.get("OTTLA_TEST_CRASHES", "20"))
PARTITIONS = 2
PRODUCERS = 3
RECORDS_PER_CRASH = 300


def test_every_acknowledged_record_survives_each_of_twenty_crashes(restartable_broker: RestartableBroker) -> None:
    broker = restartable_broker
    topic = make_topic(broker.bootstrap, partitions=PARTITIONS)
    with AcknowledgedLoad(broker.bootstrap, topic, partitions=PARTITIONS, producers=PRODUCERS) as load:
        for _ in range(CRASHES):
            load.send(RECORDS_PER_CRASH)
            load.wait_for_acknowledgements(RECORDS_PER_CRASH)
            broker.kill()
            acknowledged = load.log.snapshot()
            broker.start()
            assert_delivered(acknowledged, read_everything(broker.bootstrap, topic, partitions=PARTITIONS))
        load.finish()
        read = read_everything(broker.bootstrap, topic, partitions=PARTITIONS)
        assert_delivered(load.log, read)
        assert len(read) == CRASHES * RECORDS_PER_CRASH * PRODUCERS * PARTITIONS
