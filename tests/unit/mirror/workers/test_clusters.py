"""A flow runs between two clusters, and always the same two."""

import pytest

from ottla_mirror.state.flow_records import ClusterIds
from ottla_mirror.workers.clusters import FlowRefused, check_clusters, internal_replicas

BEGAN = ClusterIds(source="a", target="b")


def test_two_clusters_are_right_at_the_beginning_and_later():
    check_clusters("A->B", BEGAN, None)
    check_clusters("A->B", BEGAN, BEGAN)
    check_clusters("A->B", ClusterIds(source="", target=""), None)  # too old to say


def test_a_cluster_is_not_mirrored_to_itself():
    with pytest.raises(FlowRefused, match=r"same cluster \(a\)"):
        check_clusters("A->B", ClusterIds(source="a", target="a"), None)


@pytest.mark.parametrize("now", [ClusterIds(source="x", target="b"), ClusterIds(source="a", target="x")])
def test_another_cluster_under_the_same_alias_stops_the_flow(now: ClusterIds):
    with pytest.raises(FlowRefused, match="its offsets mean nothing there"):
        check_clusters("A->B", now, BEGAN)


@pytest.mark.parametrize(("wanted", "brokers", "replicas"), [(None, 1, 1), (None, 2, 2), (None, 9, 3), (5, 1, 5)])
def test_internal_topics_have_three_replicas_or_as_many_as_there_are_brokers(wanted, brokers, replicas):
    assert internal_replicas(wanted, brokers) == replicas
