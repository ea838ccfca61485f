"""The rules of a recovery under many histories: whoever may lead after it has every committed record."""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from ottla.recover.merging import RecoveryPlan, plan_recovery
from ottla.recover.partition_rules import PartitionPlan, Verdict
from ottla_core.cluster.state.model import NO_LEADER
from ottla_core.cluster.state.recovery_facts import BrokerFacts
from tests.support.controller.recovery_model import REPLICAS, TOPIC, PartitionHistory, Record, common_length
from tests.support.controller.recovery_plans import first_look

SEEDS = st.integers(min_value=0, max_value=2**32)
STEPS_MAX = 120
EXAMPLES = 400
HISTORIES_MAX = 40
"""How many are looked at for one in which a disk can be put back."""


def history_of(seed: int, *, loses_disks: bool = False) -> PartitionHistory:
    chance = random.Random(seed)
    history = PartitionHistory(chance, min_insync_replicas=chance.choice((1, 1, 2)), loses_disks=loses_disks)
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


class Disk(StrEnum):
    """What is found of a broker."""

    WHOLE = "whole"
    NO_COPY = "no copy"
    DAMAGED_COPY = "damaged copy"
    UNREAD_LOG = "unread log"
    PUT_BACK = "put back"
    AWAY = "away"


Logs = dict[int, Sequence[Record]]


def known_to_others(history: PartitionHistory, disks: Mapping[int, Disk]) -> int:
    """How many states the newest of the whole copies has."""
    whole = {Disk.WHOLE, Disk.UNREAD_LOG}
    return max((history.brokers[each].seen for each, disk in disks.items() if disk in whole), default=1)


def found_of(
    history: PartitionHistory, disks: Mapping[int, Disk], chance: random.Random
) -> tuple[list[BrokerFacts], Logs]:
    """Facts of brokers whose disks are in whatever state, and their logs; none is put back unnoticed."""
    known = known_to_others(history, disks)
    facts: list[BrokerFacts] = []
    logs: Logs = {}
    for broker, disk in disks.items():
        if disk is Disk.AWAY:
            continue
        images = history.noticeable_images(broker, known) if disk is Disk.PUT_BACK else []
        image = chance.choice(images) if images else history.brokers[broker].image()
        logs[broker] = () if disk is Disk.UNREAD_LOG else image.log
        facts.append(
            history.facts(
                broker,
                has_copy=disk is not Disk.NO_COPY,
                lost_states=chance.randint(1, 5) if disk is Disk.DAMAGED_COPY else 0,
                is_unread=disk is Disk.UNREAD_LOG,
                image=image,
            )
        )
    return facts, logs


@settings(max_examples=EXAMPLES)
@given(SEEDS, st.tuples(*[st.sampled_from(Disk)] * len(REPLICAS)))
def test_no_committed_record_that_somebody_has_is_cut_whatever_has_become_of_disks(
    seed: int, states: tuple[Disk, ...]
) -> None:
    check_nothing_is_cut(
        history_of(seed, loses_disks=True), dict(zip(REPLICAS, states, strict=True)), random.Random(seed + 1)
    )


@settings(max_examples=EXAMPLES)
@given(SEEDS, st.sampled_from(REPLICAS))
def test_a_disk_that_was_put_back_cuts_nothing_that_somebody_has(seed: int, put_back: int) -> None:
    disks = {each: Disk.PUT_BACK if each == put_back else Disk.WHOLE for each in REPLICAS}
    for history in map(history_of, range(seed, seed + HISTORIES_MAX)):
        if history.noticeable_images(put_back, known_to_others(history, disks)):
            check_nothing_is_cut(history, disks, random.Random(seed + 1))
            return


def check_nothing_is_cut(history: PartitionHistory, disks: Mapping[int, Disk], chance: random.Random) -> None:
    """What somebody who was inspected has of the committed records, the leader at the controller's first look has.

    If that is not all that was acknowledged, the plan says so; and where it says that nobody leads, nobody does.
    """
    facts, logs = found_of(history, disks, chance)
    if all(each.copy is None for each in facts):
        return  # then nobody knows which brokers there were
    made, partition = planned(facts, frozenset(each for each, disk in disks.items() if disk is Disk.AWAY))
    assert {*partition.state.isr, *partition.state.eligible_leaders} <= set(partition.state.replicas)
    leader = first_look(made, facts)[TOPIC, 0].leader
    event(f"{partition.verdict}, may lack: {partition.may_lack_records}")
    if partition.verdict is Verdict.WAITS:
        assert leader == NO_LEADER
        assert partition.may_lack_records
        return
    kept = common_length(logs[leader], history.committed)
    assert kept == max(common_length(log, history.committed) for log in logs.values()), (leader, logs)
    assert kept == len(history.committed) or partition.may_lack_records, (leader, logs, history.committed)


@example(949)
@given(SEEDS)
def test_with_all_copies_everybody_in_sync_has_everything(seed: int) -> None:
    history = history_of(seed)
    _, partition = planned([history.facts(each) for each in REPLICAS])
    newest = history.states[known_to_others(history, dict.fromkeys(REPLICAS, Disk.WHOLE)) - 1]
    if not any(history.brokers[each].has_begun for each in (*newest.isr, *newest.eligible_leaders)):
        # Nothing was committed, but a log that was never begun is not told from one that is lost.
        check_leaders(history, partition)
        return
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
    if not any(each.has_begun for each in history.brokers.values()):
        return  # nobody has a log yet
    _, partition = planned(facts)
    assert not partition.may_lack_records
    assert partition.verdict is Verdict.LONGEST_LOG
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
    if not any(history.brokers[each].has_begun for each in set(newest.isr) - {missing}):
        return  # whether they have lost their logs, nobody can tell
    assert partition.verdict is Verdict.LONGEST_LOG
    in_sync_at_last = set(history.states[-1].isr) - {missing}
    if in_sync_at_last:  # what was acknowledged is then not on the missing broker alone
        check_leaders(history, partition)
