"""Which options follow from what was typed and from the last run."""

from pathlib import Path

import pytest

from ottla.local.launch_options import LaunchOptions, settle
from ottla_operations.errors import OperationError
from tests.unit.cli.cluster_reports import last_run

HERE = Path("/data")


def test_a_first_run_has_one_of_each_on_kafkas_port():
    options = settle(LaunchOptions(HERE), None)
    assert (options.brokers, options.controllers, options.base_port, options.etcd_endpoints) == (1, 1, 9092, ())
    assert options.coordinators == 1


def test_a_second_run_is_like_the_last_one_unless_told_otherwise():
    options = settle(LaunchOptions(HERE, brokers=4), last_run())
    assert (options.brokers, options.controllers, options.base_port, options.etcd_endpoints) == (4, 2, 7000, ())
    assert options.coordinators == 3
    assert settle(LaunchOptions(HERE, coordinators=0), last_run()).coordinators == 0
    assert settle(LaunchOptions(HERE), last_run(coordinators=0)).coordinators == 0


def test_a_second_run_keeps_to_the_foreign_etcd():
    options = settle(LaunchOptions(HERE), last_run(embedded_etcd=False, etcd=("http://e:2379",)))
    assert options.etcd_endpoints == ("http://e:2379",)


def test_base_port_zero_takes_free_ports():
    assert settle(LaunchOptions(HERE, base_port=0), last_run()).base_port not in (0, 7000, 9092)


def test_racks_are_kept_until_others_are_named_or_none():
    assert settle(LaunchOptions(HERE), last_run(racks=("a", "b"))).racks == ("a", "b")
    assert settle(LaunchOptions(HERE, racks=("c",)), last_run(racks=("a", "b"))).racks == ("c",)
    assert settle(LaunchOptions(HERE, racks=()), last_run(racks=("a", "b"))).racks == ()


@pytest.mark.parametrize(
    ("launch_options", "before", "ports"),
    [
        ({}, (), ()),
        ({"connect": 2}, (), (8083, 8084)),
        ({"connect": 2, "connect_port": 9000}, (), (9000, 9001)),
        ({}, (8083, 8084), (8083, 8084)),
        ({"connect": 1}, (8083, 8084), (8083,)),
        ({"connect": 3}, (20001, 20000), (20001, 20000, 20002)),
        ({"connect": 0}, (8083,), ()),
        ({"base_port": 9192}, (20000,), (8083,)),
        ({"connect_port": 9000}, (8083, 8084), (9000, 9001)),
    ],
)
def test_connect_workers_keep_their_ports_unless_others_are_asked_for(launch_options, before, ports):
    last = last_run(connect=tuple(f"http://127.0.0.1:{port}" for port in before)) if before else None
    assert settle(LaunchOptions(HERE, **launch_options), last).connect_ports == ports


@pytest.mark.parametrize("launch_options", [{"base_port": 0}, {"connect_port": 0}])
def test_connect_workers_take_free_ports_where_brokers_do(launch_options):
    taken = settle(LaunchOptions(HERE, connect=3, **launch_options), None).connect_ports
    assert len(set(taken)) == 3
    assert 8083 not in taken


@pytest.mark.parametrize(
    ("launch_options", "before", "ports"),
    [
        ({"mirror": 2}, (), (8084, 8085)),
        ({"mirror": 1, "connect": 3}, (), (8086,)),
        ({"mirror": 1, "mirror_port": 9000}, (), (9000,)),
        ({}, (8090,), (8090,)),
        ({"mirror": 0}, (8090,), ()),
    ],
)
def test_mirror_workers_have_ports_behind_those_of_connect_and_keep_them(launch_options, before, ports):
    last = last_run(mirror=tuple(f"http://127.0.0.1:{port}" for port in before)) if before else None
    assert settle(LaunchOptions(HERE, **launch_options), last).mirror_ports == ports


def test_mirror_workers_need_a_group_coordinator():
    with pytest.raises(OperationError, match="Mirror workers form a consumer group"):
        settle(LaunchOptions(HERE, mirror=1, coordinators=0), None)


def test_connect_workers_need_a_group_coordinator():
    with pytest.raises(OperationError, match="needs a group coordinator"):
        settle(LaunchOptions(HERE, connect=1, coordinators=0), None)


def test_the_members_of_a_new_etcd_cluster_get_ports_for_each_other():
    options = settle(LaunchOptions(HERE, etcd_nodes=3), None)
    assert options.etcd_nodes == len(set(options.etcd_peer_ports)) == 3
    assert settle(LaunchOptions(HERE), None).etcd_peer_ports == ()


def test_the_members_of_etcd_keep_the_ports_that_they_know_each_other_by():
    last = last_run(etcd_nodes=3, etcd_peer_ports=(7101, 7102, 7103))
    for launch_options in (LaunchOptions(HERE), LaunchOptions(HERE, etcd_nodes=3, base_port=0)):
        options = settle(launch_options, last)
        assert (options.etcd_nodes, options.etcd_peer_ports) == (3, (7101, 7102, 7103))


@pytest.mark.parametrize(
    ("last", "wanted", "has"),
    [
        (last_run(), 3, "1 node"),
        (last_run(etcd_nodes=3, etcd_peer_ports=(1, 2, 3)), 1, "3 nodes"),
        (last_run(etcd_nodes=3, etcd_peer_ports=(1, 2, 3), embedded_etcd=False), 5, "3 nodes"),
    ],
)
def test_the_number_of_etcd_nodes_of_a_directory_cannot_change(last, wanted, has):
    with pytest.raises(
        OperationError, match=f"etcd in /data has {has}, and --etcd-nodes {wanted} cannot change that"
    ):
        settle(LaunchOptions(HERE, etcd_nodes=wanted), last)
