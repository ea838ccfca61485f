"""Which topics count as deleted, of those that the cluster state lacks."""

from dataclasses import replace

import pytest

from ottla_core.cluster.state.model import ClusterState, Recovery
from ottla_group_coordinator.markers.marker_targets import CLOCKS_APART_MAX_MS, GoneTopics
from tests.support.transactions.transaction_scene import topic_of

RECOVERED_MS = 1_000_000_000
BEFORE_MS, AFTER_MS = RECOVERED_MS - 1, RECOVERED_MS + CLOCKS_APART_MAX_MS + 1
NOTHING = ClusterState()


def test_a_topic_that_etcd_lacks_is_deleted_though_nobody_saw_it() -> None:
    assert GoneTopics().is_deleted(NOTHING, "q", BEFORE_MS)


def test_a_topic_of_which_something_is_stored_is_merely_missing() -> None:
    incomplete = replace(NOTHING, incomplete_topics=frozenset({"q"}))
    assert not GoneTopics().is_deleted(incomplete, "q", BEFORE_MS)
    assert GoneTopics().is_deleted(incomplete, "p", BEFORE_MS)


@pytest.mark.parametrize(("start_ms", "is_deleted"), [(BEFORE_MS, False), (AFTER_MS, True)])
def test_a_recovery_may_not_have_found_the_topics_of_transactions_from_before(
    start_ms: int, is_deleted: bool
) -> None:
    recovered = replace(NOTHING, recovery=Recovery(number=RECOVERED_MS))
    assert GoneTopics().is_deleted(recovered, "q", start_ms) is is_deleted


def test_nothing_is_deleted_while_a_recovery_goes_on() -> None:
    unfinished = replace(NOTHING, recovery=Recovery(number=RECOVERED_MS, is_unfinished=True))
    assert not GoneTopics().is_deleted(unfinished, "q", AFTER_MS)


def test_a_deletion_that_was_seen_counts_also_after_a_recovery() -> None:
    topic = topic_of("q", 1)
    recovered = ClusterState(topics={"q": topic}, recovery=Recovery(number=RECOVERED_MS))
    gone, missing = GoneTopics(), replace(recovered, topics={})
    gone.on_cluster_state(recovered, missing)
    assert not gone.is_deleted(missing, "q", BEFORE_MS)
    assert gone.is_deleted(replace(missing, deleted_topics={topic.id: 7}), "q", BEFORE_MS)
