"""The page of settings is what the models of settings say, and every setting of every service stands on it."""

import re
import subprocess
from pathlib import Path

import pytest

from ottla_broker.config import BrokerConfig
from ottla_connect.config import WorkerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.config import ServiceConfig
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror.config.worker_settings import WorkerSettings

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
NUMBERS = ("integer", "number")


def rows(title: str) -> dict[str, list[str]]:
    """The cells of each setting of a section, by its name."""
    page = (ROOT / "docs" / "settings.md").read_text()
    section = SECTION.split(page)[1 + SECTION.findall(page).index(title) * 2 + 1]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells for cells in lines}


def test_the_page_is_made_out_of_the_models() -> None:
    command = [str(ROOT / "scripts" / "generate-settings-docs"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("title", "model"),
    [
        ("Broker", BrokerConfig),
        ("Controller", ControllerConfig),
        ("Group coordinator", GroupCoordinatorConfig),
        ("Connect worker", WorkerConfig),
        ("Mirror worker", WorkerSettings),
    ],
)
def test_every_setting_of_a_service_has_a_row(title: str, model: type[ServiceConfig]) -> None:
    assert {*rows(title)} == {each.key for each in model.described_keys()}


def test_every_setting_of_topics_has_a_row_with_its_unit() -> None:
    found = rows("Topic")
    assert {*found} == {*TOPIC_CONFIG_DEFINITIONS}
    assert found["retention.ms"][1:3] == ["integer", "ms"]
    assert found["segment.bytes"][1:3] == ["integer", "bytes"]


def test_numbers_have_their_units_and_nothing_else_has() -> None:
    broker = rows("Broker")
    assert broker["log.retention.hours"][1:3] == ["integer", "h"]
    assert broker["log.cleaner.io.max.bytes.per.second"][1:3] == ["number", "bytes/s"]
    assert [name for name, cells in broker.items() if cells[2].strip() and cells[1] not in NUMBERS] == []


def test_what_can_be_changed_at_run_time_says_so() -> None:
    broker = rows("Broker")
    assert broker["log.retention.ms"][-1] == "at once"
    assert broker["num.replica.fetchers"][-1] == "at the next start"
    assert "at" not in broker["listeners"][-1].split()
