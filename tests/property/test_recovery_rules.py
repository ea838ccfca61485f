"""The rules of a recovery under many histories: whoever may lead after it has every committed record."""

import random

from hypothesis import event, given
from hypothesis import strategies as st

from ottla.recover.merging import RecoveryPlan, plan_recovery
from ottla.recover.partition_rules import PartitionPlan, Verdict
from ottla_core.cluster.state.recovery_facts import BrokerFacts
from tests.support.controller.recovery_model import REPLICAS, PartitionHistory

SEEDS = st.integers(min_value=0, max_value=2**32)
STEPS_MAX = 120


def history_of(seed: int) -> PartitionHistory:
    chance = random.Random(seed)
    history = PartitionHistory(chance, min_insync_replicas=chance.choice((1, 1, 2)))
    history.run(chance.randint(1, STEPS_MAX))
    return history


def planned(facts: list[BrokerFacts], without: frozenset[int] = frozenset()) -> tuple[RecoveryPlan, PartitionPlan]:
    plan = plan_recovery(facts, without=without, now_ms=1)
    (partition,) = plan.partitions
    return plan, partition


def check_leaders(history: PartitionHistory, partition: PartitionPlan) -> None:
    """Everybody who may lead has what was committed, and whoever has other records learns of it by a later epoch."""
    leaders = partition.state.isr or partition.state.eligible_leaders
    assert leaders
    for leader in leaders:
        log = history.brokers[leader].log
        assert log[: len(history.committed)] == history.committed, (leader, log, history.committed)
    assert partition.state.leader_epoch > max(state.leader_epoch for state in history.states)


@given(SEEDS)
def test_with_all_copies_everybody_in_sync_has_everything(seed: int) -> None:
    history = history_of(seed)
    _, partition = planned([history.facts(each) for each in REPLICAS])
    assert partition.verdict is Verdict.IN_SYNC
    assert not partition.may_lack_records
    check_leaders(history, partition)
    event(f"in sync: {len(partition.state.isr)}")


@given(SEEDS, st.sets(st.sampled_from(REPLICAS), min_size=1), st.integers(min_value=0, max_value=5))
def test_where_copies_are_gone_or_damaged_the_longest_log_has_everything(
    seed: int, doubtful: set[int], lost_states: int
) -> None:
    history = history_of(seed)
    facts = [
        history.facts(
            each, has_copy=each not in doubtful or lost_states > 0, lost_states=lost_states * (each in doubtful)
        )
        for each in REPLICAS
    ]
    _, partition = planned(facts)
    assert partition.verdict is Verdict.LONGEST_LOG
    assert not partition.may_lack_records
    assert len(partition.state.isr) == 1
    check_leaders(history, partition)


@given(SEEDS, st.sampled_from(REPLICAS))
def test_where_a_broker_is_missing_a_leader_has_everything_or_the_plan_says_that_it_may_not(
    seed: int, missing: int
) -> None:
    history = history_of(seed)
    present = [each for each in REPLICAS if each != missing]
    _, partition = planned([history.facts(each) for each in present], frozenset({missing}))
    newest = history.states[max(history.brokers[each].seen for each in present) - 1]
    event(partition.verdict)
    assert partition.may_lack_records, "nobody can tell what the missing broker had acknowledged"
    if set(newest.isr) == {missing}:
        assert partition.verdict is Verdict.WAITS
        assert partition.state.isr == (missing,)
        return
    assert partition.verdict is Verdict.LONGEST_LOG
    in_sync_at_last = set(history.states[-1].isr) - {missing}
    if in_sync_at_last:  # what was acknowledged is then not on the missing broker alone
        check_leaders(history, partition)
