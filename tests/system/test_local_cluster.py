"""`ottla up`, `status` and `down` with the real services."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla_operations.local_clusters.process_identity import identify
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


def ottla(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ottla_command(), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120
    )


def document_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def state_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "cluster.json").read_text())


def has_gone(pid: int) -> bool:
    return identify(pid) is None


def pids_of(report: dict[str, Any]) -> list[int]:
    return [process["pid"] for process in report["processes"] if process["pid"]]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "cluster"
    yield made
    if (made / "cluster.json").exists():
        ottla("down", "--dir", str(made))


@pytest.fixture
def detached(directory: Path) -> dict[str, Any]:
    return document_of(ottla("up", "--dir", str(directory), "--base-port", "0", "--detach", "--json"))


def test_a_cluster_in_the_foreground_serves_and_stops_with_its_launcher(directory):
    with OttlaCluster(directory, brokers=2, controllers=2, coordinators=2) as cluster:
        names = sorted(f"{service.role}-{service.id}" for service in cluster.services)
        assert names == [
            *("broker-1", "broker-2", "controller-1", "controller-2", "etcd-1"),
            *("group-coordinator-1", "group-coordinator-2"),
        ]
        assert all(service.log.exists() for service in cluster.services)
        created = ottla("topic", "create", "t", "--replication-factor", "2", "--bootstrap", cluster.bootstrap)
        assert created.stdout == "created t\n", created.stderr
    assert state_of(directory)["state"] == "stopped"


def test_a_detached_cluster_outlives_the_command_until_down(directory, detached):
    report = document_of(ottla("status", "--dir", str(directory), "--json"))
    assert {process["state"] for process in report["processes"]} == {"ready"}
    assert report["state"] == "running"
    down = ottla("down", "--dir", str(directory))
    assert (down.returncode, down.stdout) == (0, "stopped\n")
    assert all(has_gone(pid) for pid in [*pids_of(detached), detached["supervisor_pid"]])
    again = ottla("status", "--dir", str(directory), "--json")
    assert again.returncode == 1
    assert document_of(again)["state"] == "stopped"
    assert ottla("down", "--dir", str(directory)).stdout == "it was not running\n"


def test_a_second_start_has_the_data_and_the_ports_of_the_first(directory, detached):
    bootstrap = detached["bootstrap"]
    assert ottla("produce", "kept", "--create", "--bootstrap", bootstrap, stdin="one\ntwo\n").returncode == 0
    ottla("down", "--dir", str(directory))
    again = document_of(ottla("up", "--dir", str(directory), "--detach", "--json"))
    assert again["bootstrap"] == bootstrap
    assert ottla("consume", "kept", "--bootstrap", bootstrap).stdout == "one\ntwo\n"


def test_a_directory_in_use_is_refused_and_the_cluster_there_is_untouched(directory, detached):
    for extra in ([], ["--detach"]):
        second = ottla("up", "--dir", str(directory), "--base-port", "0", *extra)
        assert second.returncode == 1
        assert second.stderr.startswith(f"ottla: a cluster runs in {directory} already (process ")
        assert second.stderr.count("\n") == 1
    assert ottla("status", "--dir", str(directory)).returncode == 0


def test_a_killed_supervisor_takes_everything_with_it_and_a_new_start_works(directory, detached):
    os.kill(detached["supervisor_pid"], signal.SIGKILL)
    eventually(lambda: all(has_gone(pid) for pid in pids_of(detached)), "every process has gone")
    status = ottla("status", "--dir", str(directory), "--json")
    assert (status.returncode, document_of(status)["state"]) == (1, "lost")
    again = ottla("up", "--dir", str(directory), "--detach", "--json")
    assert document_of(again)["state"] == "running"


def test_an_etcd_of_three_members_outlives_any_of_them_and_is_the_same_after_a_restart(directory):
    wanted = ("--brokers", "3", "--controllers", "2", "--etcd-nodes", "3", "--racks", "a,b")
    up = document_of(ottla("up", "--dir", str(directory), "--base-port", "0", "--detach", "--json", *wanted))
    bootstrap = up["bootstrap"]
    assert ottla("produce", "kept", "--create", "--bootstrap", bootstrap, stdin="one\n").returncode == 0
    for name in ("etcd-1", "etcd-2", "etcd-3"):
        member = next(process for process in state_of(directory)["processes"] if process["name"] == name)
        os.kill(member["pid"], signal.SIGKILL)
        created = ottla("topic", "create", f"without-{name}", "--bootstrap", bootstrap)
        assert created.returncode == 0, created.stderr
        eventually(lambda name=name: is_ready_again(directory, name), f"{name} is back", within_s=60)
    ottla("down", "--dir", str(directory))

    refused = ottla("up", "--dir", str(directory), "--etcd-nodes", "1", "--detach")
    assert refused.returncode == 1
    assert f"the etcd in {directory} has 3 nodes, and --etcd-nodes 1 cannot change that" in refused.stderr

    again = document_of(ottla("up", "--dir", str(directory), "--detach", "--json"))
    assert again["etcd_peer_ports"] == up["etcd_peer_ports"]
    assert [process["name"] for process in again["processes"]] == [process["name"] for process in up["processes"]]
    brokers = json.loads(ottla("cluster", "describe", "--bootstrap", bootstrap, "--json").stdout)["brokers"]
    assert [broker["rack"] for broker in brokers] == ["a", "b", "a"]
    topics = {each["topic"] for each in document_of(ottla("topic", "list", "--bootstrap", bootstrap, "--json"))}
    assert topics == {"kept", "without-etcd-1", "without-etcd-2", "without-etcd-3"}
    assert ottla("consume", "kept", "--bootstrap", bootstrap).stdout == "one\n"


def is_ready_again(directory: Path, name: str) -> bool:
    process = next(each for each in state_of(directory)["processes"] if each["name"] == name)
    return process["restarts"] == 1 and process["state"] == "ready"


def test_a_start_with_fewer_brokers_tells_which_partitions_nobody_leads(directory):
    up = ("up", "--dir", str(directory), "--detach", "--json")
    bootstrap = document_of(ottla(*up, "--base-port", "0", "--brokers", "3"))["bootstrap"]
    created = ottla(
        "topic", "create", "t", "--partitions", "3", "--replication-factor", "1", "--bootstrap", bootstrap
    )
    assert created.returncode == 0, created.stderr
    status = ottla("status", "--dir", str(directory), "--json")
    assert (status.returncode, document_of(status)["partitions"]["offline"]) == (0, [])
    (described,) = document_of(ottla("topic", "describe", "t", "--bootstrap", bootstrap, "--json"))
    (kept,) = (each["partition"] for each in described["partitions"] if each["leader"] == 1)
    lost = [f"t-{number}" for number in range(3) if number != kept]
    ottla("down", "--dir", str(directory))

    fewer = ottla(*up, "--brokers", "1", "--force")
    assert document_of(fewer)["state"] == "running"
    assert f"ottla: 2 partitions without a leader ({', '.join(lost)}); brokers 2, 3 keep partitions" in fewer.stderr
    status = ottla("status", "--dir", str(directory))
    assert status.returncode == 1
    assert f"2 without a leader: {', '.join(lost)}" in status.stdout
    in_json = document_of(ottla("status", "--dir", str(directory), "--json"))
    assert in_json["partitions"]["offline"] == lost
    assert in_json["partitions"]["absent_brokers"] == [2, 3]
    assert {process["state"] for process in in_json["processes"]} == {"ready"}
    ottla("down", "--dir", str(directory))

    as_before = ottla(*up, "--brokers", "3")
    assert "without a leader" not in as_before.stderr
    assert ottla("status", "--dir", str(directory)).returncode == 0


@pytest.mark.parametrize("name", ["broker-1", "group-coordinator-1"])
def test_a_killed_process_is_started_again_and_status_shows_it(directory, detached, name):
    killed = next(process for process in detached["processes"] if process["name"] == name)
    os.kill(killed["pid"], signal.SIGKILL)

    def is_back() -> bool:
        process = next(each for each in state_of(directory)["processes"] if each["name"] == name)
        return process["restarts"] == 1 and process["state"] == "ready"

    eventually(is_back, f"{name} is back", within_s=60)
    assert f"{name} ended (killed by signal 9); restart 1 of at most 5" in Path(detached["log"]).read_text()
    assert ottla("topic", "list", "--bootstrap", detached["bootstrap"]).returncode == 0


def test_the_only_controller_is_killed_and_comes_back_under_its_id(directory, detached):
    """Its successor has to wait until the dead one's lease has run out, and must not give up before."""
    controller = next(process for process in detached["processes"] if process["role"] == "controller")
    os.kill(controller["pid"], signal.SIGKILL)
    created = ottla("topic", "create", "meanwhile", "--bootstrap", detached["bootstrap"])
    assert created.stdout == "created meanwhile\n", created.stderr

    def is_back() -> bool:
        process = next(each for each in state_of(directory)["processes"] if each["role"] == "controller")
        return process["restarts"] > 0 and process["state"] == "ready"

    eventually(is_back, "the controller is back", within_s=60)
    assert Path(detached["log"]).read_text().count("controller-1 ended") == 1
    created = ottla("topic", "create", "afterwards", "--bootstrap", detached["bootstrap"])
    assert created.stdout == "created afterwards\n", created.stderr


def test_settings_that_a_service_would_refuse_are_told_before_anything_starts(directory):
    up = ottla("up", "--dir", str(directory), "--base-port", "0", "--set", "broker:no.such.key=1")
    assert (up.returncode, up.stdout) == (2, "")
    assert up.stderr.endswith("ottla: --set: broker: no.such.key: unknown setting\n")
    assert not (directory / "cluster.json").exists()


def test_a_service_that_cannot_start_is_named_with_its_log_and_nothing_stays(directory):
    for extra in ([], ["--detach"]):
        up = ottla("up", "--dir", str(directory), "--base-port", "0", "--set", "broker:log.dirs=/proc/none", *extra)
        assert up.returncode == 1
        message = up.stderr[up.stderr.index("ottla: ") :]
        assert message.startswith(
            f"ottla: broker-1 ended while it was starting (exit code 2); its log is {directory}/logs/"
        )
        assert "None of the log directories can be used: /proc/none" in message
        assert message.endswith("`ottla up --unset broker:log.dirs` takes one back: broker:log.dirs\n")
        assert "Traceback" not in up.stderr
        report = state_of(directory)
        assert report["state"] == "failed"
        assert pids_of(report) == []


@pytest.mark.parametrize(
    "received", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda received: received.name
)
def test_a_detached_start_that_is_interrupted_leaves_nothing(directory, received):
    starting = subprocess.Popen(
        [ottla_command(), "up", "--dir", str(directory), "--base-port", "0", "--detach"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        state = directory / "cluster.json"
        eventually(lambda: state.exists() and pids_of(state_of(directory)), "something has started")
        seen = {state_of(directory)["supervisor_pid"], *pids_of(state_of(directory))}
        starting.send_signal(received)
        starting.wait(60)
    finally:
        starting.kill()
        starting.wait()
    eventually(lambda: state_of(directory)["state"] == "stopped", "the supervisor has stopped", within_s=60)
    eventually(lambda: all(has_gone(pid) for pid in {*seen, *pids_of(state_of(directory))}), "all have gone")


def test_ctrl_c_stops_a_cluster_in_the_foreground(directory):
    cluster = OttlaCluster(directory)
    cluster.start()
    try:
        launcher = cluster._launcher
        assert launcher is not None
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(60) == 0
        assert all(has_gone(service.pid) for service in cluster.services)
    finally:
        cluster.stop()


def test_down_never_touches_a_process_that_got_the_id_of_one_of_ours(directory, detached):
    ottla("down", "--dir", str(directory))
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        report = state_of(directory)
        report |= {"state": "running", "supervisor_pid": bystander.pid}
        report["processes"][0] |= {"pid": bystander.pid, "start": report["supervisor_start"], "state": "ready"}
        (directory / "cluster.json").write_text(json.dumps(report))
        assert ottla("down", "--dir", str(directory)).stdout == "it was not running\n"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_brokers_files_are_dumped_and_damage_is_found(directory, detached):
    lines = "".join(f"value {number}\n" for number in range(100))
    assert ottla("produce", "dumped", "--create", "--bootstrap", detached["bootstrap"], stdin=lines).returncode == 0
    ottla("down", "--dir", str(directory))
    partition = directory / "broker-1" / "dumped-0"
    dump = ottla("log", "dump", str(partition), "--records", "--json")
    assert dump.returncode == 0, dump.stderr
    rows = [json.loads(line) for line in dump.stdout.splitlines()]
    assert [row["payload"] for row in rows if row["kind"] == "record"] == lines.splitlines()
    batches = ottla("log", "dump", str(partition)).stdout  # several where the command was slow to read its input
    assert "baseOffset: 0 " in batches
    assert "lastOffset: 99 " in batches
    segment = partition / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1
    segment.write_bytes(data)
    damaged = ottla("log", "dump", str(segment))
    assert (damaged.returncode, damaged.stderr) == (1, "ottla: 1 problem found\n")
    assert "isvalid: false" in damaged.stdout


def test_an_etcd_that_runs_already_is_used_and_left_running(directory, tmp_path):
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        up = ottla("up", "--dir", str(directory), "--base-port", "0", "--etcd", etcd.endpoint, "--detach", "--json")
        report = document_of(up)
        assert [process["role"] for process in report["processes"]] == [
            *("controller", "group-coordinator", "broker"),
        ]
        assert report["etcd"] == [etcd.endpoint]
        assert ottla("down", "--dir", str(directory)).returncode == 0
        assert "/ottla/" in etcd.etcdctl("get", "/ottla/", "--prefix", "--keys-only")
    finally:
        etcd.stop()
