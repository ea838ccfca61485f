"""What `ottla up` checks before anything starts."""

import http.server
import socket
import threading

import pytest

from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.launch import check_etcd, run_cluster
from ottla.local.launch_options import LaunchOptions
from ottla_operations.errors import OperationError
from tests.support.free_ports import free_port
from tests.unit.cli.cluster_reports import last_run


def test_a_port_in_use_is_named_with_the_connect_worker_that_would_have_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OperationError, match=rf"port {port} is in use, so connect-1 cannot listen.*--connect-port"
        ):
            run(LaunchOptions(tmp_path, base_port=0, connect=1, connect_port=port))
    first = free_port()
    with pytest.raises(OperationError, match=rf"port {first} is broker-1's, so connect-1 cannot listen"):
        run(LaunchOptions(tmp_path, base_port=first, connect=1, connect_port=first))


def test_a_port_that_a_member_of_etcd_is_known_by_and_another_uses_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        last = last_run(directory=str(tmp_path), etcd_nodes=3, etcd_peer_ports=(free_port(), port, free_port()))
        ClusterDirectory(tmp_path).write_report(last)
        with pytest.raises(OperationError, match=rf"port {port} is in use, so etcd-2 cannot listen"):
            run(LaunchOptions(tmp_path, base_port=0))


def run(launch_options: LaunchOptions) -> None:
    run_cluster(launch_options, lambda report: None, console=None, stop_on=lambda loop, stop: None)


def test_a_broker_port_in_use_is_named_with_its_broker_and_nothing_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OperationError, match=rf"port {port} is in use, so broker-1 cannot listen"):
            run(LaunchOptions(tmp_path, base_port=port))
    assert not (tmp_path / "cluster.json").exists()


def test_an_etcd_url_that_nothing_answers_is_named(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(OperationError, match=rf"--etcd: {url} does not answer"):
        run(LaunchOptions(tmp_path, base_port=0, etcd_endpoints=(url,)))


def test_an_etcd_url_of_something_else_is_named():
    server = http.server.HTTPServer(("127.0.0.1", 0), SomethingElse)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(OperationError, match="is no etcd"):
            check_etcd([f"http://127.0.0.1:{server.server_port}"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("url", ["127.0.0.1:2379", "nonsense", "ftp://127.0.0.1"])
def test_an_etcd_url_that_is_none_is_named(url):
    with pytest.raises(OperationError, match=f"{url}.* is no HTTP URL"):
        check_etcd([url])


def test_a_file_in_the_directorys_place_is_one_message(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OperationError, match="cannot use the directory"):
        run(LaunchOptions(tmp_path / "file"))


def test_a_state_file_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(OperationError, match="cannot read the state file"):
        run(LaunchOptions(tmp_path))
    assert (tmp_path / "cluster.json").read_text() == "{}"


class SomethingElse(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass
