"""kafka-python's admin client lists, describes and deletes groups, sets and deletes offsets, and removes members."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.compat.conftest import CrewFactory
from tests.compat.group_admin_cases import CASES, CLASSIC, CONSUMERS, NO_SUCH_TOPIC
from tests.compat.kafka_python.group_admin import KafkaPythonGroupAdmin

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaPythonGroupAdmin]:
    admin = KafkaPythonGroupAdmin(bootstrap)
    yield admin
    admin.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_with_the_admin_client(admin: KafkaPythonGroupAdmin, new_crew: CrewFactory, case: Callable[..., Any]) -> None:
    case(admin, lambda variant: new_crew(CONSUMERS, variant))


def test_offsets_are_deleted_unless_a_member_subscribes_to_their_topic(
    admin: KafkaPythonGroupAdmin, new_crew: CrewFactory
) -> None:
    crew, other = new_crew(CONSUMERS, CLASSIC), new_crew(CONSUMERS, CLASSIC)
    mine, others = (crew.topic, 0), (other.topic, 0)
    admin.set_offsets(crew.group, {mine: (1, ""), others: (2, "")})
    member = crew.start()
    crew.settle(member)
    outcome = admin.delete_offsets(crew.group, [mine, others])
    assert outcome == {mine: ErrorCode.group_subscribed_to_topic, others: ErrorCode.none}
    assert admin.offsets(crew.group) == {mine: (1, "")}
    member.leave()
    crew.wait_until_empty()
    unknown = (NO_SUCH_TOPIC, 0)
    outcome = admin.delete_offsets(crew.group, [mine, unknown])
    assert outcome == {mine: ErrorCode.none, unknown: ErrorCode.unknown_topic_or_partition}
    assert admin.offsets(crew.group) == {}
    assert admin.delete_offsets(f"{crew.group}-not-there", [mine]) is ErrorCode.group_id_not_found


def test_static_members_are_removed_by_their_instance_ids(
    admin: KafkaPythonGroupAdmin, new_crew: CrewFactory
) -> None:
    crew = new_crew(CONSUMERS, CLASSIC)
    one, other = crew.start(instance_id="one"), crew.start(instance_id="other")
    crew.settle(one, other)
    one.kill()
    outcome = admin.remove_members(crew.group, ["one", "nobody"])
    assert outcome == {"one": ErrorCode.none, "nobody": ErrorCode.unknown_member_id}
    crew.settle(other)
