"""Ranges of keys in etcd."""

from ottla_core.cluster.etcd.key_range import range_end


def test_a_range_covers_its_prefix_and_nothing_else() -> None:
    assert b"/ottla/test/" <= b"/ottla/test/zzz" < range_end("/ottla/test/")
    assert not range_end("/ottla/test/") > b"/ottla/test0"
