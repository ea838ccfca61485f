"""Histories that show what a rule is for: harmless as long as it is kept, and a loss or a lie when it is broken.

Each is named after its rule in `broken_rules.py`. They need so many steps, in an order, that seeds hardly draw them.
"""

import asyncio
from collections.abc import Mapping

from ottla_core.cluster.controller_rpc.controller_api import ElectionType, Reassignment
from ottla_core.cluster.state.model import NO_LEADER
from tests.simulation.cluster import NAME
from tests.simulation.scripted import CONTROLLERS, ETCD, LAG_MAX_MS, History, ScriptCannotGoOn, ScriptedCluster
from tests.simulation.service_process import LEASE_TTL_MS

RECORDS = 10
MORE_RECORDS = 5
OTHER_TOPIC_ID = 2


def _brokers(*ids: int) -> list[str]:
    return [f"broker-{broker_id}" for broker_id in ids]


def _reassign(cluster: ScriptedCluster, *replicas: int) -> None:
    cluster.faults.ask(
        f"replicas {list(replicas)}", "on_reassign", Reassignment(topic="t", index=0, replicas=replicas)
    )


def _elect_preferred_leader(cluster: ScriptedCluster) -> None:
    cluster.faults.ask("the preferred leader", "on_elect", (ElectionType.PREFERRED, NAME))


def accepted_by_a_refusal(cluster: ScriptedCluster) -> None:
    """The only replica proposes the one that is to replace it; that makes it the leader, and is told as an error.

    The former leader sees no more of the cluster. If it took that error for a refusal, it would believe to be alone
    in sync, hence irreplaceable, and commit what the new leader does not have, as soon as that one lags.
    """
    _reassign(cluster, 2)
    cluster.until("broker 1 proposes its successor", lambda: cluster.has_proposed(1))
    cluster.cut(ETCD, _brokers(1))
    cluster.until_led_by(2)
    cluster.pass_ms(5_500)  # until it has given up waiting to see what was decided
    for _ in range(10):
        cluster.send(1)
        cluster.pass_ms(100)


def about_to_join_and_back_with_less(cluster: ScriptedCluster) -> None:
    """A follower that has caught up, and is about to join, loses power, and lacks committed records when it is back.

    It has caught up a moment ago as its leader reckons, so only the high watermark tells that it must not join yet.
    """
    cluster.cut(_brokers(1), CONTROLLERS)
    _reassign(cluster, 1, 2, 3)
    cluster.until("broker 1 proposes the new replica", lambda: cluster.has_proposed(1))
    _until_checkpoints_are_written(cluster, 3)
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.restart_without_power(3)
    _until_fetched_under_new_registration(cluster, 3)
    cluster.cut(_brokers(1), _brokers(3))
    cluster.mend(_brokers(1), CONTROLLERS)
    cluster.pass_ms(4_000)


def back_with_less(cluster: ScriptedCluster) -> None:
    """A follower loses power, hence its place in the in-sync set, and fetches from where its log ends now.

    If its leader went by the highest offset that it has ever fetched from, it would have it back in the set at once,
    without the records that it has lost.
    """
    _until_checkpoints_are_written(cluster, 3)
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.restart_without_power(3)
    _until_fetched_under_new_registration(cluster, 3)
    cluster.cut(_brokers(1), _brokers(3))
    cluster.pass_ms(4_000)


def _until_checkpoints_are_written(cluster: ScriptedCluster, broker_id: int) -> None:
    """Wait until a broker has flushed its log, so that it does not do so within the next seconds."""
    cluster.append(1, 1)
    log = cluster.log(broker_id)
    cluster.until("a checkpoint is written", lambda: log.durable_end_offset == log.log_end_offset > 0)


def _until_fetched_under_new_registration(cluster: ScriptedCluster, broker_id: int) -> None:
    broker = cluster.brokers[broker_id]
    former = cluster.fetch_epoch_of(broker_id)
    cluster.until(
        f"broker {broker_id} fetches anew",
        lambda: cluster.fetch_epoch_of(broker_id) not in {None, former} and broker.is_registered(),
    )


def led_for_a_moment(cluster: ScriptedCluster) -> None:
    """A replica leads for a moment, appends nothing, and then copies records of an earlier epoch.

    Its checkpoint says that its own epoch begins where these records lie. If it believed that after a crash, it would
    take them for its own, and tell followers so: one that has parted from it would not be told where.
    """
    cluster.restart(2)
    cluster.until_led_by(1)
    cluster.until_in_sync(1, 2, 3)
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.cut(_brokers(1), _brokers(2, 3))
    cluster.cut(_brokers(2), _brokers(1))
    cluster.append(1, MORE_RECORDS)
    _elect_preferred_leader(cluster)
    cluster.until_led_by(2)
    cluster.restart(2)
    cluster.until_led_by(1)
    cluster.mend(_brokers(1, 2), _brokers(1, 2, 3))
    cluster.until("broker 2 copies", lambda: cluster.log(2).log_end_offset == RECORDS + MORE_RECORDS)
    cluster.restart(2)


def elected_while_it_cuts(cluster: ScriptedCluster) -> None:
    """A follower is told to cut its log, and is elected before its disk is ready for that.

    What it was to cut is committed by then. The connection to the leader that told it stays, for another topic: it
    would end the cut otherwise.
    """
    cluster.create_topic("busy-1", OTHER_TOPIC_ID, (1, 2))
    cluster.append(2, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.cut(_brokers(2), _brokers(1, 3))
    cluster.append(2, MORE_RECORDS)
    _lead_first(cluster, 1, 2, 3)
    cluster.mend(_brokers(2), _brokers(1, 3))
    log = cluster.log(2)
    is_asked = False

    async def work_slowly() -> None:
        nonlocal is_asked
        is_asked = True
        await asyncio.sleep(1.0)  # of the simulation's clock

    log.truncation.work = work_slowly
    cluster.until("broker 2 is about to cut its log", lambda: is_asked)
    _lead_first(cluster, 2, 1, 3)
    cluster.until_equal(1, 2, 3)
    if log.log_end_offset != RECORDS + MORE_RECORDS:
        raise ScriptCannotGoOn(f"broker 2 has cut its log at {log.log_end_offset} already")
    cluster.pass_ms(2_000)


def _lead_first(cluster: ScriptedCluster, *replicas: int) -> None:
    """Have another replica lead, as the preferred one."""
    _reassign(cluster, *replicas)
    cluster.until_state(f"the replicas are {replicas}", lambda state: state.replicas == replicas)
    _elect_preferred_leader(cluster)
    cluster.until_led_by(replicas[0])


def renewed_long_ago(cluster: ScriptedCluster) -> None:
    """A leader stalls while its renewal is answered, then loses sight of etcd.

    The lease has the time that it had when it was renewed, not a whole new one from when the leader hears of that:
    by then somebody else leads.
    """
    leader = cluster.brokers[1]
    deadline_ms = cluster.etcd.lease_deadline_ms(leader.lease_id)
    cluster.until("it renews", lambda: cluster.etcd.lease_deadline_ms(leader.lease_id) != deadline_ms)
    leader.pause()
    cluster.pass_ms(0.6 * LEASE_TTL_MS)
    leader.resume()
    cluster.pass_ms(50)  # it compares its view of the cluster once more, lest that keep it from leading
    cluster.cut(ETCD, _brokers(1))
    cluster.cut(_brokers(1), ETCD)
    cluster.until_led_by(2)
    for _ in range(50):
        cluster.send(1)
        cluster.pass_ms(20)


def decided_on_an_older_state(cluster: ScriptedCluster) -> None:
    """A follower has left the in-sync set, records are committed without it, and a reassignment does not know.

    The controller that decides it sees the cluster late. Written in place of whatever there is, what it has decided
    takes the follower back.
    """
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.cut(_brokers(3), _brokers(1))
    cluster.append(1, MORE_RECORDS)
    cluster.until("broker 1 proposes to go on without broker 3", lambda: cluster.has_proposed(1))
    cluster.etcd.lagging.update(CONTROLLERS)
    cluster.until_in_sync(1, 2)
    cluster.until("more is committed", lambda: cluster.log(1).high_watermark == RECORDS + MORE_RECORDS)
    _reassign(cluster, 1, 2, 3, 4)
    cluster.pass_ms(300)
    cluster.etcd.lagging.clear()
    cluster.until_state("broker 4 is added", lambda state: 4 in state.replicas)


def _end_all_but_last(cluster: ScriptedCluster, last: int, *others: int) -> None:
    """Kill all replicas, in such an order that the last one is alone in the in-sync set."""
    for broker_id in others:
        cluster.brokers[broker_id].kill()
    cluster.until_in_sync(last)
    cluster.brokers[last].kill()
    cluster.until_state("nobody leads", lambda state: state.leader == NO_LEADER)


def _start(cluster: ScriptedCluster, *brokers: int) -> None:
    for broker_id in brokers:
        cluster.brokers[broker_id].start()


def _until_equal_again(cluster: ScriptedCluster, *brokers: int) -> None:
    cluster.until_in_sync(*brokers)
    cluster.until_equal(*brokers)


def last_lost_its_end(cluster: ScriptedCluster) -> None:
    """All are killed, the leader last, so that it is alone in the in-sync set, and its disk loses committed records.

    The others have these records. If it led as soon as it is elected, they would cut their logs to its own end.
    """
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    _end_all_but_last(cluster, 1, 2, 3)
    cluster.lose_end(1, RECORDS - MORE_RECORDS)
    _start(cluster, 2, 3, 1)
    _until_equal_again(cluster, 1, 2, 3)


def all_lost_power(cluster: ScriptedCluster) -> None:
    """All lose power, and the one that is back in sync at first has lost most of it.

    It does not know of that. Another one had flushed everything, but is heard last, and a third one some of it.
    """
    cluster.append(1, MORE_RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.log(3).checkpoint()
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.log(2).checkpoint()
    _end_all_but_last(cluster, 1, 2, 3)
    for broker_id in (1, 2, 3):
        cluster.lose_power(broker_id)
    cluster.cut(_brokers(2), _brokers(1))
    _start(cluster, 1, 2, 3)
    cluster.pass_ms(LAG_MAX_MS / 2)
    cluster.mend(_brokers(2), _brokers(1))
    _until_equal_again(cluster, 1, 2, 3)


def longest_is_away(cluster: ScriptedCluster) -> None:
    """The last replica in sync has lost its end and knows it, another one lacks as much, and the third one is away.

    Were that one not waited for, it would cut its log when it is back.
    """
    cluster.append(1, MORE_RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.brokers[3].kill()
    cluster.until_in_sync(1, 2)
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2)
    _end_all_but_last(cluster, 1, 2)
    cluster.lose_end(1, MORE_RECORDS - 1)
    _start(cluster, 1, 3)
    cluster.pass_ms(2 * LAG_MAX_MS)
    _start(cluster, 2)
    _until_equal_again(cluster, 1, 2, 3)


def all_may_have_gaps(cluster: ScriptedCluster) -> None:
    """All lose power while more than their last segments is not flushed, so that nobody knows of a gap in his log.

    The longest log has none. Had its replica cut it where the gap might be, before it is known to be the longest,
    what is behind would be lost.
    """
    cluster.append(1, MORE_RECORDS)
    cluster.until_equal(1, 2, 3)
    for broker_id in (1, 2, 3):
        cluster.log(broker_id).checkpoint()
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.log(2).checkpoint()
    _end_all_but_last(cluster, 1, 2, 3)
    for broker_id in (1, 2, 3):
        cluster.lose_power(broker_id)
        cluster.log(broker_id).lost_from = MORE_RECORDS - 1
    _start(cluster, 1, 2, 3)
    _until_equal_again(cluster, 1, 2, 3)


def back_with_a_gap(cluster: ScriptedCluster) -> None:
    """A follower is back with a log that ends where the leader's does, and its disk has lost some of the middle."""
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.brokers[3].kill()
    cluster.until_in_sync(1, 2)
    cluster.log(3).lost_from = MORE_RECORDS
    _start(cluster, 3)
    _until_equal_again(cluster, 1, 2, 3)


def ends_within_a_gap(cluster: ScriptedCluster) -> None:
    """The last replica in sync has lost some of the middle, and that is where the log of a follower ends.

    With what is behind, that follower would count as in sync before the one that has everything.
    """
    cluster.append(1, MORE_RECORDS)
    cluster.until_equal(1, 2, 3)
    cluster.brokers[3].kill()
    cluster.until_in_sync(1, 2)
    cluster.append(1, RECORDS)
    cluster.until_equal(1, 2)
    _end_all_but_last(cluster, 1, 2)
    cluster.lose_middle(1, MORE_RECORDS - 2, MORE_RECORDS + 2)
    cluster.cut(_brokers(2), _brokers(1))
    _start(cluster, 2, 3)
    cluster.pass_ms(LAG_MAX_MS / 2)
    _start(cluster, 1)
    cluster.until_led_by(1)
    cluster.pass_ms(LAG_MAX_MS / 2)
    cluster.mend(_brokers(2), _brokers(1))
    _until_equal_again(cluster, 1, 2, 3)


HISTORIES: Mapping[str, History] = {
    "any refusal undoes a proposal": History(accepted_by_a_refusal, (1,), lag_max_ms=600),
    "followers join before they have reached the high watermark": History(about_to_join_and_back_with_less, (1, 2)),
    "a follower's log never gets shorter": History(back_with_less, (1, 2, 3)),
    "epochs that were truncated come back after a crash": History(led_for_a_moment, (2, 1, 3)),
    "cuts go by what was once answered": History(elected_while_it_cuts, (2, 1, 3)),
    "leases are counted from the answer": History(renewed_long_ago, (1, 2, 3)),
    "who may lack records leads at once": History(last_lost_its_end, (1, 2, 3)),
    "the longest log is looked for among those that are heard first": History(all_lost_power, (1, 2, 3)),
    "logs with gaps are cut before a leader is above doubt": History(all_may_have_gaps, (1, 2, 3)),
    "followers that end within a gap are not held": History(ends_within_a_gap, (1, 2, 3)),
    "logs with gaps claim their ends": History(back_with_a_gap, (1, 2, 3)),
    "nobody waits long for those that are away": History(longest_is_away, (1, 2, 3)),
    "partition epochs are not compared": History(decided_on_an_older_state, (1, 2, 3), lag_max_ms=600),
}


def play(name: str, seed: int = 0, rule: str = "") -> None:
    """Go through a history; `rule` is told with a failure.

    Raises:
        SimulationFailed: a rule was broken, or the history cannot be gone through.
    """
    ScriptedCluster(seed, name, HISTORIES[name], rule).run()
