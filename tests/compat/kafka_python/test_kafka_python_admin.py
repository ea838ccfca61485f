"""kafka-python's admin client: topics, partitions, configs, records, cluster, and what is refused."""

from collections.abc import Iterator

import pytest

from tests.compat import admin_cases
from tests.compat.admin_cases import REFUSALS, Refusal, refusal_name
from tests.compat.kafka_python.admin import KafkaPythonAdmin
from tests.conftest import TopicFactory


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaPythonAdmin]:
    client = KafkaPythonAdmin(bootstrap)
    yield client
    client.close()


def test_a_topic_is_created_listed_described_grown_and_deleted(admin: KafkaPythonAdmin) -> None:
    admin_cases.check_a_topic_from_creation_to_deletion(admin)


def test_validation_alone_creates_nothing(admin: KafkaPythonAdmin) -> None:
    admin_cases.check_that_validation_alone_creates_nothing(admin)


def test_configs_are_set_replaced_changed_and_reset(admin: KafkaPythonAdmin) -> None:
    admin_cases.check_configs_from_creation_to_reset(admin)


def test_records_before_an_offset_are_deleted(admin: KafkaPythonAdmin, bootstrap: str) -> None:
    admin_cases.check_deleting_records(admin, bootstrap)


def test_the_cluster_is_described(admin: KafkaPythonAdmin, bootstrap: str) -> None:
    admin_cases.check_the_cluster_description(admin, bootstrap)


@pytest.mark.parametrize("refusal", REFUSALS, ids=refusal_name)
def test_is_refused_with_kafkas_error(admin: KafkaPythonAdmin, new_topic: TopicFactory, refusal: Refusal) -> None:
    assert refusal.attempt(admin, new_topic(partitions=2)) is refusal.code


def test_log_directories_show_a_partition_and_its_size(admin: KafkaPythonAdmin, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=2)
    directories = admin.log_directories()
    assert all(directory["error_code"] == 0 for directory in directories)
    sizes = [
        partition["partition_size"]
        for directory in directories
        for held in directory["topics"]
        if held["name"] == topic
        for partition in held["partitions"]
    ]
    assert sizes == [0, 0] * len(admin.cluster().brokers), "every broker has a replica of either partition"
