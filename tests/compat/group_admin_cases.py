"""What an admin client must be able to do with groups, written once; a client's folder has a `group_admin.py`.

Outcomes are Kafka's error codes, whatever the client wraps them in. The codes expected here are those that Apache
Kafka 4.2 answers. Members are real consumers of confluent-kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode

from tests.compat.group_crew import PARTITIONS, SETTLE_DEADLINE_S, Crew, PythonClient, Variant
from tests.compat.group_member_program import Partition
from tests.support.eventually import eventually

CONSUMERS = PythonClient("tests.compat.confluent.member")
CLASSIC = Variant(name="classic")
CONSUMER = Variant(name="consumer", protocol="consumer")
NO_SUCH_TOPIC = "no-such-topic"

OffsetAndMetadata = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as an admin client describes it.

    Attributes:
        state: as Kafka writes it, such as ``Stable``.
        assignments: what each member owns, by client id and host.
    """

    state: str
    assignor: str
    assignments: Mapping[tuple[str, str], frozenset[Partition]]


class GroupAdminUnderTest(Protocol):
    """What an admin client is wrapped in."""

    def groups(self, *, state: str | None = None, type_: str | None = None) -> dict[str, str]:
        """The state of each group, of all or of those in a state or of a type."""

    def describe(self, group: str) -> GroupDescription | None:
        """The group, or None if there is none."""

    def offsets(
        self, group: str, partitions: Sequence[Partition] | None = None
    ) -> dict[Partition, OffsetAndMetadata]:
        """Committed offsets, of all partitions or of some; offset -1 where there is none."""

    def set_offsets(
        self, group: str, offsets: Mapping[Partition, OffsetAndMetadata]
    ) -> dict[Partition, ErrorCode]: ...

    def delete_groups(self, groups: Sequence[str]) -> dict[str, ErrorCode]: ...


def groups_are_listed_with_filters(admin: GroupAdminUnderTest, new_crew: Callable[[Variant], Crew]) -> None:
    """Groups of both types, with and without members."""
    live, empty, modern = new_crew(CLASSIC), new_crew(CLASSIC), new_crew(CONSUMER)
    for crew in (live, modern):
        crew.settle(crew.start())
    admin.set_offsets(empty.group, {(empty.topic, 0): (0, "")})

    def listed(**filters: str) -> set[str]:
        return set(admin.groups(**filters)) & {live.group, empty.group, modern.group}

    assert listed() == {live.group, empty.group, modern.group}
    eventually(lambda: listed(state="Stable") == {live.group, modern.group}, "both are listed as stable")
    assert listed(state="Empty") == {empty.group}
    assert listed(type_="classic") == {live.group, empty.group}
    assert listed(type_="consumer") == {modern.group}
    assert admin.groups()[empty.group] == "Empty"


def a_group_is_described_with_its_members(admin: GroupAdminUnderTest, new_crew: Callable[[Variant], Crew]) -> None:
    """While it has members, when they have gone, and when it has never been there."""
    crew = new_crew(CLASSIC)
    members = [crew.start(), crew.start()]
    crew.settle(*members)
    described = admin.describe(crew.group)
    assert described is not None
    assert (described.state, described.assignor) == ("Stable", "range")
    assert {host for _, host in described.assignments} == {"127.0.0.1"}
    for member in members:
        member.leave()
    described = admin.describe(crew.group)
    assert described is not None
    assert (described.state, described.assignments) == ("Empty", {})
    assert admin.describe(f"{crew.group}-not-there") is None


def offsets_of_a_group_without_members_are_set(
    admin: GroupAdminUnderTest, new_crew: Callable[[Variant], Crew]
) -> None:
    """Also of one that was never there, which has them from then on; its first member begins at them."""
    crew = new_crew(CLASSIC)
    crew.feed(10)
    first, second, third, fourth = sorted(crew.partitions)
    assert admin.offsets(crew.group) == {}
    assert admin.offsets(crew.group, [first]) == {first: (-1, "")}
    wanted = {first: (3, "by hand"), second: (7, "")}
    assert admin.set_offsets(crew.group, wanted) == dict.fromkeys(wanted, ErrorCode.none)
    assert admin.offsets(crew.group) == wanted
    assert admin.offsets(crew.group, [second, third]) == {second: (7, ""), third: (-1, "")}
    member = crew.start()
    crew.wait_until_read(member, {(*first, 3), (*second, 7), (*third, 0), (*fourth, 0)})
    assert min(offset for *_, partition, offset in member.records if partition == first[1]) == 3


def offsets_are_not_set_behind_the_members_backs(
    admin: GroupAdminUnderTest, new_crew: Callable[[Variant], Crew]
) -> None:
    """In both protocols, and not for partitions that are not there."""
    for variant in (CLASSIC, CONSUMER):
        crew = new_crew(variant)
        some = min(crew.partitions)
        crew.settle(crew.start())
        assert admin.set_offsets(crew.group, {some: (1, "")}) == {some: ErrorCode.unknown_member_id}
        assert crew.committed() == {}
    crew = new_crew(CLASSIC)
    some, missing = (NO_SUCH_TOPIC, 0), (crew.topic, PARTITIONS)
    assert admin.set_offsets(crew.group, {some: (1, "")}) == {some: ErrorCode.unknown_topic_or_partition}
    assert admin.set_offsets(crew.group, {missing: (1, "")}) == {missing: ErrorCode.unknown_topic_or_partition}


def groups_are_deleted_once_they_are_empty(admin: GroupAdminUnderTest, new_crew: Callable[[Variant], Crew]) -> None:
    """In both protocols; each group of one request by itself."""
    for variant in (CLASSIC, CONSUMER):
        crew = new_crew(variant)
        missing = f"{crew.group}-not-there"
        member = crew.start()
        crew.settle(member)
        member.commit(dict.fromkeys(crew.partitions, 0))
        assert admin.delete_groups([crew.group]) == {crew.group: ErrorCode.non_empty_group}
        member.leave()
        crew.wait_until_empty()
        outcome = admin.delete_groups([crew.group, missing])
        assert outcome == {crew.group: ErrorCode.none, missing: ErrorCode.group_id_not_found}
        assert crew.group not in admin.groups()
        assert admin.offsets(crew.group) == {}
        again = crew.start()
        crew.settle(again)
        assert crew.committed() == {}


def a_deleted_topic_takes_its_offsets_along(admin: GroupAdminUnderTest, new_crew: Callable[[Variant], Crew]) -> None:
    """Offsets of other topics stay."""
    crew, other = new_crew(CLASSIC), new_crew(CLASSIC)
    kept, gone = (crew.topic, 0), (other.topic, 0)
    admin.set_offsets(crew.group, {kept: (0, ""), gone: (0, "")})
    assert set(admin.offsets(crew.group)) == {kept, gone}
    other.delete_topic()
    eventually(lambda: set(admin.offsets(crew.group)) == {kept}, "its offsets are gone", within_s=SETTLE_DEADLINE_S)


CASES = (
    groups_are_listed_with_filters,
    a_group_is_described_with_its_members,
    offsets_of_a_group_without_members_are_set,
    offsets_are_not_set_behind_the_members_backs,
    groups_are_deleted_once_they_are_empty,
    a_deleted_topic_takes_its_offsets_along,
)
