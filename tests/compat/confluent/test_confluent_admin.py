"""confluent-kafka's admin client: topics, partitions, configs, records, cluster, and what is refused."""

import pytest

from tests.compat import admin_cases
from tests.compat.admin_cases import REFUSALS, Refusal, refusal_name
from tests.compat.confluent.admin import ConfluentAdmin
from tests.conftest import TopicFactory


@pytest.fixture
def admin(bootstrap: str) -> ConfluentAdmin:
    return ConfluentAdmin(bootstrap)


def test_a_topic_is_created_listed_described_grown_and_deleted(admin: ConfluentAdmin) -> None:
    admin_cases.check_a_topic_from_creation_to_deletion(admin)


def test_validation_alone_creates_nothing(admin: ConfluentAdmin) -> None:
    admin_cases.check_that_validation_alone_creates_nothing(admin)


def test_configs_are_set_replaced_changed_and_reset(admin: ConfluentAdmin) -> None:
    admin_cases.check_configs_from_creation_to_reset(admin)


def test_records_before_an_offset_are_deleted(admin: ConfluentAdmin, bootstrap: str) -> None:
    admin_cases.check_deleting_records(admin, bootstrap)


def test_the_cluster_is_described(admin: ConfluentAdmin, bootstrap: str) -> None:
    admin_cases.check_the_cluster_description(admin, bootstrap)


@pytest.mark.parametrize("refusal", REFUSALS, ids=refusal_name)
def test_is_refused_with_kafkas_error(admin: ConfluentAdmin, new_topic: TopicFactory, refusal: Refusal) -> None:
    assert refusal.attempt(admin, new_topic(partitions=2)) is refusal.code
