"""A worker that limits what connectors may do: they work within the limits, and are refused beyond."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

SOURCE = {"connector.class": "ottla_file.FileSource", "topic": "lines", "value.converter": "StringConverter"}
SINK = {"connector.class": "ottla_file.FileSink", "topics": "lines", "value.converter": "StringConverter"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("limits")
    (made / "root" / "out").mkdir(parents=True)
    (made / "beside").mkdir()
    (made / "beside" / "lines.txt").write_text("a secret\n")
    (made / "root" / "lines.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    (made / "root" / "link.txt").symlink_to(made / "beside" / "lines.txt")
    return made


@pytest.fixture(scope="module")
def rest(folder: Path) -> Iterator[httpx.Client]:
    limits = {
        "connector.file.roots.allowed": str(folder / "root"),
        "connector.processes.allowed": "false",
        "connector.classes.denied": "*.HoistField*",
        "offset.flush.interval.ms": "200",
    }
    typed = [word for key, value in limits.items() for word in ("--set", f"connect:{key}={value}")]
    with OttlaCluster(folder / "cluster", arguments=("--connect", "1", "--connect-port", "0", *typed)):
        (url,) = json.loads((folder / "cluster" / "cluster.json").read_text())["connect"]
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            yield client


def refusal(rest: httpx.Client, settings: Mapping[str, str]) -> str:
    answer = rest.put("/connectors/refused/config", json=dict(settings))
    assert answer.status_code == 400, answer.text
    return str(answer.json()["message"])


def test_file_connectors_work_in_the_roots(rest: httpx.Client, folder: Path) -> None:
    made = {
        "lines": {**SOURCE, "file.path": str(folder / "root" / "lines.txt")},
        "copies": {**SINK, "file.directory": str(folder / "root" / "out"), "file.rotate.rows": "10"},
    }
    for name, settings in made.items():
        rest.put(f"/connectors/{name}/config", json=settings).raise_for_status()

    def copied() -> bool:
        return len(list((folder / "root" / "out").rglob("lines*"))) >= 2

    def states() -> Any:
        return [rest.get(f"/connectors/{name}/status").json() for name in made]

    try:
        eventually(copied, "two files are written", within_s=60)
    except AssertionError as error:
        raise AssertionError(f"{states()}") from error


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**SOURCE, "file.path": "{}/beside/lines.txt"}, "connector.file.roots.allowed"),
        ({**SOURCE, "file.path": "{}/root/../beside/*.txt"}, "connector.file.roots.allowed"),
        ({**SINK, "file.directory": "{}/beside"}, "connector.file.roots.allowed"),
        (
            {**SOURCE, "file.path": "{}/root/lines.txt", "producer.override.ssl.ca.location": "{}/beside/lines.txt"},
            "connector.file.roots.allowed",
        ),
        (
            {
                **SOURCE,
                "file.path": "{}/root/lines.txt",
                "transforms": "hoist",
                "transforms.hoist.type": "HoistFieldValue",
                "transforms.hoist.field": "line",
            },
            "connector.classes.denied",
        ),
    ],
)
def test_what_is_beyond_is_refused_with_the_setting_that_forbids_it(
    rest: httpx.Client, folder: Path, settings: Mapping[str, str], said: str
) -> None:
    assert said in refusal(rest, {key: value.replace("{}", str(folder)) for key, value in settings.items()})


def test_a_link_out_of_the_roots_is_not_followed(rest: httpx.Client, folder: Path) -> None:
    settings = {**SOURCE, "topic": "linked", "file.path": str(folder / "root" / "link.txt")}
    rest.put("/connectors/linked/config", json=settings).raise_for_status()

    def has_failed() -> bool:
        status = rest.get("/connectors/linked/status").json()
        return any("is not below" in each.get("trace", "") for each in status["tasks"])

    eventually(has_failed, "the task says that the file is not below the roots", within_s=60)


def test_a_class_that_is_denied_is_not_described(rest: httpx.Client) -> None:
    answer = rest.get("/connector-plugins/HoistFieldValue/config")
    assert "connector.classes.denied" in answer.text
    assert rest.get("/connector-plugins/StringConverter/config").is_success
