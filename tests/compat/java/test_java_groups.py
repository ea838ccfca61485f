"""The Java consumer in groups of both protocols, and moved from one to the other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.conftest import CrewFactory
from tests.compat.group_cases import CASES_WITHOUT_COMMANDS, case_name
from tests.compat.group_crew import Crew, PythonClient, Variant
from tests.compat.java.group_client import JavaGroupClient
from tests.support.eventually import eventually

RANGE = Variant(name="range", assignor="range")
COOPERATIVE = Variant(name="cooperative-sticky", assignor="cooperative-sticky")
CONSUMER = Variant(name="consumer", protocol="consumer")
EVERY_CASE = pytest.mark.parametrize("case", CASES_WITHOUT_COMMANDS, ids=case_name)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]


@EVERY_CASE
def test_in_an_eager_group(new_crew: CrewFactory, tmp_path: Path, case: Callable[[Crew], None]) -> None:
    case(new_crew(JavaGroupClient(tmp_path), RANGE))


@EVERY_CASE
def test_in_a_cooperative_group(new_crew: CrewFactory, tmp_path: Path, case: Callable[[Crew], None]) -> None:
    case(new_crew(JavaGroupClient(tmp_path), COOPERATIVE))


@EVERY_CASE
def test_in_a_group_of_the_consumer_protocol(
    new_crew: CrewFactory, tmp_path: Path, case: Callable[[Crew], None]
) -> None:
    case(new_crew(JavaGroupClient(tmp_path), CONSUMER))


@pytest.mark.parametrize("classic", [RANGE, COOPERATIVE], ids=lambda variant: variant.name)
def test_a_running_group_is_moved_to_the_consumer_protocol_one_by_one(
    new_crew: CrewFactory, tmp_path: Path, classic: Variant
) -> None:
    crew = new_crew(JavaGroupClient(tmp_path), classic)
    old = [crew.start(), crew.start()]
    crew.settle(*old)
    new = [crew.start(variant=CONSUMER)]
    crew.settle(*old, *new)
    assert crew.description().type.name == "CONSUMER"
    old[0].leave()
    new.append(crew.start(variant=CONSUMER))
    crew.settle(old[1], *new)
    old[1].leave()
    crew.settle(*new)
    eventually(lambda: crew.description().state.name == "STABLE", "the group is stable")


@pytest.mark.parametrize("variant", [RANGE, CONSUMER], ids=lambda variant: variant.name)
def test_java_and_librdkafka_share_a_group(new_crew: CrewFactory, tmp_path: Path, variant: Variant) -> None:
    crew = new_crew(JavaGroupClient(tmp_path), variant)
    java = crew.start()
    other = crew.start(client=PythonClient("tests.compat.confluent.member"))
    crew.settle(java, other)
    java.leave()
    crew.settle(other)
