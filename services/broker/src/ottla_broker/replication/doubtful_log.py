"""What becomes of a replica whose log has failed or may lack records: who may follow it, and whether it leads.

The rules of the search for the longest log are in `longest_log.py`; here they meet a partition.
"""

from collections.abc import Collection, Mapping

from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replica.longest_log import LogReach, LongestLog
from ottla_core.cluster.state.model import Member
from ottla_core.errors import NotLeaderOrFollower


def must_make_way(partition: Partition, live: Collection[int]) -> bool:
    """Return whether this replica counts although its log has failed or lacks records, and a live one could."""
    state = partition.state
    others = {*state.isr, *state.eligible_leaders}.difference((partition.broker_id,))
    may_be_longest = partition.search is not None and not partition.knows_of_lost_end
    is_unfit = partition.has_failed_log or (partition.lacks_records and not may_be_longest)
    return is_unfit and partition.counts_as_complete(state) and not others.isdisjoint(live)


def check_may_be_followed_by(partition: Partition, broker_id: int) -> None:
    """See that a follower has nothing to lose by making its log equal to this one.

    Where this log lacks records, one that counts as complete is to lead in its place. It may be back, and fetch,
    before this leader or the controller sees that.

    Raises:
        NotLeaderOrFollower: it has; it tries again until it is elected, or counts no longer.
    """
    state = partition.state
    if partition.lacks_records and (broker_id in state.isr or broker_id in state.eligible_leaders):
        raise NotLeaderOrFollower(f"broker {partition.broker_id} lacks records of {partition.topic_partition}")


def heard_of_log(partition: Partition, contact: FollowerContact, reach: LogReach, *, leader_epoch: int) -> None:
    """Note how far the log of a replica reaches that follows this one, as it believes, in a leader epoch."""
    search = partition.search
    if search is not None and leader_epoch == search.leader_epoch:
        search.heard(contact, reach)
        if partition.context.on_search is not None:
            partition.context.on_search(partition)


def longest_log(partition: Partition, members: Mapping[int, Member]) -> LongestLog | None:
    """Return who has the longest log, or None while there is no search or its outcome is not known.

    Others that are away are waited for as long as a follower may lag; but without limit if the end of this log is
    known to be lost, unless the topic allows unclean elections, as this would be one.
    """
    if partition.search is None:
        return None
    waits = partition.knows_of_lost_end and not partition.log.config.unclean_leader_election_enable
    return partition.search.longest(
        partition.state.replicas,
        members,
        now_ms=partition.context.monotonic_ms(),
        wait_ms=None if waits else partition.context.lag_max_ms,
    )


def take_for_longest(partition: Partition) -> None:
    """Note that the controller takes this log for the longest, and nobody else for one that has everything."""
    partition.log.may_lack_end = False
    if partition.knows_of_lost_end:
        partition.log.lost_from = None  # nobody has what is lost
