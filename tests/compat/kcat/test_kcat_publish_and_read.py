"""kcat publishes and reads back every case by partition, and finds offsets by time."""

import pytest

from tests.compat.cases import (
    PARTITIONS,
    PUBLISH_CASES,
    PublishCase,
    case_name,
    check_offsets_by_time,
    publish_and_read_back,
)
from tests.compat.confluent.client import ConfluentClient
from tests.compat.kcat.client import KcatClient
from tests.conftest import TopicFactory

CLIENT = KcatClient()

pytestmark = pytest.mark.requires("kcat")


@pytest.mark.parametrize("case", PUBLISH_CASES, ids=case_name)
def test_what_was_published_is_read_back_by_partition(
    bootstrap: str, new_topic: TopicFactory, case: PublishCase
) -> None:
    publish_and_read_back(CLIENT, CLIENT, bootstrap, new_topic(partitions=PARTITIONS), case)


def test_offsets_are_found_by_time(bootstrap: str, new_topic: TopicFactory) -> None:
    check_offsets_by_time(ConfluentClient(), CLIENT, bootstrap, new_topic(partitions=PARTITIONS))
