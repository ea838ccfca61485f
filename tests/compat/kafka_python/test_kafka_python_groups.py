"""kafka-python in groups: every case with an eager assignor and with the cooperative one.

Members that subscribe to a pattern poll for long. Those that poll briefly stand still for good if a rebalance
outlasts the `poll` that began it, whatever broker they talk to; so it is in kafka-python 3.0.12:

- `ConsumerCoordinator.need_rejoin` says yes to a new topic because `_assignment_snapshot` differs from
  `_metadata_snapshot`; `rejoin_needed` stays false. `join_group_async` calls off the heartbeats and sends JoinGroup.
- `poll` times out and leaves the join to the background, as `_join_task`. There `_perform_assignment` makes the
  former snapshot equal to the latter. From now on `need_rejoin` says no, `poll` goes by, nobody takes the result
  (`join_group_async` begins with `while self.need_rejoin()`): `_on_join_complete_async` does not run, the state stays
  REBALANCING, no heartbeat is sent, and the coordinator misses the member without its ever noticing.
- Or `poll` is called once more, finds `_join_task.is_done`, forgets its result and joins anew, generation after
  generation. Polls time out so easily because each asks for metadata before it joins (the comment on KAFKA-3949 in
  `poll`), which is asked for at most once in `retry_backoff_ms`, longer than these polls.

With polls of 50 ms members hung in 3 of 12 runs with Apache Kafka 4.2 and in 6 of 12 with Ottla, with either
assignor; with polls that outlast a rebalance in none of 12 with either.
"""

from collections.abc import Callable

import pytest

from tests.compat.conftest import CrewFactory
from tests.compat.group_cases import CASES, case_name, members_share_and_take_over_from_one_that_leaves
from tests.compat.group_crew import Crew, PythonClient, Variant

CLIENT = PythonClient("tests.compat.kafka_python.member")
RANGE = Variant(name="range", assignor="range")
COOPERATIVE = Variant(name="cooperative-sticky", assignor="cooperative-sticky")
OTHERS = (Variant(name="roundrobin", assignor="roundrobin"), Variant(name="sticky", assignor="sticky"))

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_in_an_eager_group(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(CLIENT, RANGE))


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_in_a_cooperative_group(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(CLIENT, COOPERATIVE))


@pytest.mark.parametrize("variant", OTHERS, ids=lambda variant: variant.name)
def test_members_share_with_every_assignor(new_crew: CrewFactory, variant: Variant) -> None:
    members_share_and_take_over_from_one_that_leaves(new_crew(CLIENT, variant))
