"""What `ottla up` decides and checks before anything starts."""

import http.server
import socket
import threading
from pathlib import Path

import pytest

from ottla.errors import CommandError
from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.cluster_report import ClusterReport
from ottla.local.launch import Wish, check_etcd, run_cluster, settle
from tests.support.free_ports import free_port

HERE = Path("/data")


def last_run(**changes) -> ClusterReport:
    values = {
        "bootstrap": "127.0.0.1:7000", "directory": "/data", "state": "stopped", "etcd": ("http://127.0.0.1:1",),
        "embedded_etcd": True, "brokers": 3, "controllers": 2, "base_port": 7000,
        "coordinators": 3, "supervisor_pid": 1, "supervisor_start": "x", "log": "/data/log",
    }  # fmt: skip
    return ClusterReport(**{**values, **changes})


def test_a_first_run_has_one_of_each_on_kafkas_port():
    options = settle(Wish(HERE), None)
    assert (options.brokers, options.controllers, options.base_port, options.etcd_endpoints) == (1, 1, 9092, ())
    assert options.coordinators == 1


def test_a_second_run_is_like_the_last_one_unless_told_otherwise():
    options = settle(Wish(HERE, brokers=4), last_run())
    assert (options.brokers, options.controllers, options.base_port, options.etcd_endpoints) == (4, 2, 7000, ())
    assert options.coordinators == 3
    assert settle(Wish(HERE, coordinators=0), last_run()).coordinators == 0
    assert settle(Wish(HERE), last_run(coordinators=0)).coordinators == 0


def test_a_second_run_keeps_to_the_foreign_etcd():
    options = settle(Wish(HERE), last_run(embedded_etcd=False, etcd=("http://e:2379",)))
    assert options.etcd_endpoints == ("http://e:2379",)


def test_base_port_zero_takes_free_ports():
    assert settle(Wish(HERE, base_port=0), last_run()).base_port not in (0, 7000, 9092)


def test_racks_are_kept_until_others_are_named_or_none():
    assert settle(Wish(HERE), last_run(racks=("a", "b"))).racks == ("a", "b")
    assert settle(Wish(HERE, racks=("c",)), last_run(racks=("a", "b"))).racks == ("c",)
    assert settle(Wish(HERE, racks=()), last_run(racks=("a", "b"))).racks == ()


@pytest.mark.parametrize(
    ("wish", "before", "ports"),
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
def test_connect_workers_keep_their_ports_unless_others_are_asked_for(wish, before, ports):
    last = last_run(connect=tuple(f"http://127.0.0.1:{port}" for port in before)) if before else None
    assert settle(Wish(HERE, **wish), last).connect_ports == ports


@pytest.mark.parametrize("wish", [{"base_port": 0}, {"connect_port": 0}])
def test_connect_workers_take_free_ports_where_brokers_do(wish):
    taken = settle(Wish(HERE, connect=3, **wish), None).connect_ports
    assert len(set(taken)) == 3
    assert 8083 not in taken


def test_connect_workers_need_a_group_coordinator():
    with pytest.raises(CommandError, match="needs a group coordinator"):
        settle(Wish(HERE, connect=1, coordinators=0), None)


def test_a_port_in_use_is_named_with_the_connect_worker_that_would_have_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=rf"port {port} is in use, so connect-1 cannot listen.*--connect-port"):
            run(Wish(tmp_path, base_port=0, connect=1, connect_port=port))
    first = free_port()
    with pytest.raises(CommandError, match=rf"port {first} is broker-1's, so connect-1 cannot listen"):
        run(Wish(tmp_path, base_port=first, connect=1, connect_port=first))


def test_the_members_of_a_new_etcd_cluster_get_ports_for_each_other():
    options = settle(Wish(HERE, etcd_nodes=3), None)
    assert options.etcd_nodes == len(set(options.etcd_peer_ports)) == 3
    assert settle(Wish(HERE), None).etcd_peer_ports == ()


def test_the_members_of_etcd_keep_the_ports_that_they_know_each_other_by():
    last = last_run(etcd_nodes=3, etcd_peer_ports=(7101, 7102, 7103))
    for wish in (Wish(HERE), Wish(HERE, etcd_nodes=3, base_port=0)):
        options = settle(wish, last)
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
    with pytest.raises(CommandError, match=f"etcd in /data has {has}, and --etcd-nodes {wanted} cannot change that"):
        settle(Wish(HERE, etcd_nodes=wanted), last)


def test_a_port_that_a_member_of_etcd_is_known_by_and_another_uses_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        last = last_run(directory=str(tmp_path), etcd_nodes=3, etcd_peer_ports=(free_port(), port, free_port()))
        ClusterDirectory(tmp_path).write_report(last)
        with pytest.raises(CommandError, match=rf"port {port} is in use, so etcd-2 cannot listen"):
            run(Wish(tmp_path, base_port=0))


def run(wish: Wish) -> None:
    run_cluster(wish, lambda report: None, console=None, stop_on=lambda loop, stop: None)


def test_a_broker_port_in_use_is_named_with_its_broker_and_nothing_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=rf"port {port} is in use, so broker-1 cannot listen"):
            run(Wish(tmp_path, base_port=port))
    assert not (tmp_path / "cluster.json").exists()


def test_an_etcd_url_that_nothing_answers_is_named(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(CommandError, match=rf"--etcd: {url} does not answer"):
        run(Wish(tmp_path, base_port=0, etcd_endpoints=(url,)))


def test_an_etcd_url_of_something_else_is_named():
    server = http.server.HTTPServer(("127.0.0.1", 0), SomethingElse)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(CommandError, match="is no etcd"):
            check_etcd([f"http://127.0.0.1:{server.server_port}"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("url", ["127.0.0.1:2379", "nonsense", "ftp://127.0.0.1"])
def test_an_etcd_url_that_is_none_is_named(url):
    with pytest.raises(CommandError, match=f"{url}.* is no HTTP URL"):
        check_etcd([url])


def test_a_file_in_the_directorys_place_is_one_message(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="cannot use the directory"):
        run(Wish(tmp_path / "file"))


def test_a_state_file_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(CommandError, match="cannot read the state file"):
        run(Wish(tmp_path))
    assert (tmp_path / "cluster.json").read_text() == "{}"


class SomethingElse(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass
