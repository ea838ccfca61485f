"""Every setting that a page names is one of Ottla's or its clients', with the default that the page says."""

import re
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from typing import get_args

import confluent_kafka
import pytest

from ottla_broker.config import BrokerConfig
from ottla_connect.config import WorkerConfig
from ottla_connect.task.settings.connector_settings import SinkSettings, SourceSettings
from ottla_console.config.cluster_settings import KEYS as CLUSTER_KEYS
from ottla_console.config.console_config import ConsoleConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState
from ottla_core.cluster.state.link_properties import DEFAULTS, PROPERTY_NAMES
from ottla_core.config import ServiceConfig
from ottla_core.dynamic_broker_config import PROCESS_DEFINITIONS
from ottla_core.group_config import GROUP_CONFIG_DEFINITIONS
from ottla_core.throttle_config import THROTTLE_DEFINITIONS
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror.config.flow_settings import FlowSettings
from ottla_mirror.config.settings_table import REFUSED, WITHOUT_EFFECT
from ottla_mirror.config.worker_settings import WorkerSettings
from ottla_mirror.rest.entities import FlowState, PartitionState
from ottla_sdk.config_description import describe
from tests.documents.documents import ROOT
from tests.documents.named_commands import typed_lines
from tests.unit.plugins.test_connector_docs import generator
from tests.unit.test_documents import PAGES

FOR_USERS = ("README", "docs/", "examples/")
INTERNALS = "docs/internals/"
REFERENCE = (ROOT / "docs/mirroring-reference.md").read_text()
SERVICES: dict[str, type[ServiceConfig]] = {
    "broker": BrokerConfig,
    "controller": ControllerConfig,
    "group-coordinator": GroupCoordinatorConfig,
    "connect": WorkerConfig,
    "mirror": WorkerSettings,
}
HOOKS = ("ottla_connectors", "ottla_transforms", "ottla_predicates", "ottla_converters", "ottla_config_providers")
OF_OTHERS = ("*.yaml", "*.json", "*.jsonl", "*.py", "*.sql", "*.pem", "*.properties", "*.toml", "*.log*", "spark.*")
"""Names of files, and settings of Spark, which has no list of them."""
OF_TRACES = ("rpc.*", "server.*", "service.*", "messaging.*", "error.type", "ottla.connector")
"""Attributes of spans, most as OpenTelemetry names them."""
NO_SETTINGS = {
    "dead.letter.topic": "a value",
    "west.orders": "a topic",
    "tests.faults": "a module",
    "foo.bar": "a field",
    "ottla.checkpoint.location": "a variable of the prompt",
    "kafka.sasl.jaas.config": "a setting of Java's clients",
    "kafka-client-metrics.sh": "a command of Kafka",
    "kafka-acls.sh": "a command of Kafka",
    "kafka-configs.sh": "a command of Kafka",
    "kafka-delegation-tokens.sh": "a command of Kafka",
    "kafka-features.sh": "a command of Kafka",
    "ottla.version": "a feature",
    "ottla.plugins": "a group of entry points",
    "max.request.size": "a setting of Java's clients",
    "processing.guarantee": "a setting of Kafka Streams",
    "kafka-transactions.sh": "a tool",
    "transaction.version": "a feature",
    "cluster-state.behind": "a file of a log directory",
}


@cache
def patterns() -> frozenset[str]:
    """The names of all settings, `*` for what users choose."""
    found = {*TOPIC_CONFIG_DEFINITIONS, *PROPERTY_NAMES, *REFUSED, *WITHOUT_EFFECT, *FlowSettings.known_keys()}
    found |= {*PROCESS_DEFINITIONS, *THROTTLE_DEFINITIONS, *GROUP_CONFIG_DEFINITIONS}
    found |= ConsoleConfig.known_keys() | CLUSTER_KEYS.keys() | {f"cluster.*.{key}" for key in CLUSTER_KEYS}
    for service in SERVICES.values():
        found |= service.known_keys() | {f"{prefix}*" for prefix in service.open_prefixes}
    models = [SourceSettings, SinkSettings]
    models += [
        each.config_model
        for _, module in generator().modules()
        for hook in HOOKS
        for each in generator().answers(module, hook)
    ]
    for model in models:
        for setting in describe(model):
            key = setting.key.replace("NAME", "*")
            found |= {key, f"key.converter.{key}", f"value.converter.{key}", f"config.providers.*.param.{key}"}
    return frozenset(found)


def is_known(name: str) -> bool:
    """Whether there is a setting of this name, or one that begins with it in a table (`tables.NAME.`)."""
    pattern = name.replace("NAME", "x")
    return any(fnmatchcase(pattern, each) for each in (*patterns(), *OF_OTHERS, *OF_TRACES)) or is_of_clients(name)


@cache
def is_of_clients(name: str) -> bool:
    """Whether librdkafka has such a setting, whatever its values."""
    try:
        confluent_kafka.Consumer({"group.id": "x", name: "\0"})
    except confluent_kafka.KafkaException as error:
        return "No such configuration property" not in str(error)
    return True


def named_settings(document: str) -> set[str]:
    """The settings in a document's sentences and tables."""
    sentences = re.sub(r"^```.*?^```$|^    .*?$", "", document, flags=re.MULTILINE | re.DOTALL)
    codes = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", sentences)
    return {
        found[1]
        for each in codes
        if (found := re.fullmatch(r"([a-z][a-z-]*(?:\.[a-zA-Z][a-zA-Z-]*)+)(?:=.*)?", each))
    }


@pytest.mark.parametrize(
    "page", [each for each in PAGES if each.startswith(FOR_USERS) and not each.startswith(INTERNALS)]
)
def test_every_setting_that_a_page_names_exists(page: str) -> None:
    named = named_settings((ROOT / page).read_text()) - NO_SETTINGS.keys()

    assert {name for name in named if not is_known(name) and not name.startswith(("org.", "io."))} == set()


def test_a_setting_that_there_is_not_is_noticed() -> None:
    named = named_settings("With `log.retention.hour=1`, `auto.offset.rest` or `file.formt`, not `file.format`.\n")

    assert {name for name in named if not is_known(name)} == {"log.retention.hour", "auto.offset.rest", "file.formt"}


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_of_up_is_one_of_its_role(page: str) -> None:
    for arguments in typed_lines((ROOT / page).read_text()):
        if arguments[0] == "up":
            for before, written in pairwise(arguments):
                if before in ("--set", "--unset"):
                    role, _, setting = written.partition(":")
                    service = SERVICES[re.sub(r"-\d+$", "", role)]
                    assert service.accepts(setting.partition("=")[0]), written


def rows(head: str) -> dict[str, list[str]]:
    """The cells beside each setting or state that begins a row of the table of this head."""
    (table,) = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", f"{REFERENCE}\n", re.MULTILINE)
    found = {}
    for line in table.splitlines():
        first, *others = [cell.strip() for cell in line.strip("|").split(" | ")]
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), others)
    return found


def test_settings_of_mirror_workers_have_the_defaults_that_are_told() -> None:
    told = {name: cells[0].strip("`") for name, cells in rows("setting of our own").items()}
    models = (*FlowSettings.described_keys(), *WorkerSettings.described_keys())
    defaults = {each.key: each.default.removeprefix("default ") for each in models}

    assert told.pop("refused.batches.topic") == "SOURCE.refused"  # which the flow makes of an empty one
    assert told.pop("memory.max.bytes") == f"{int(defaults['memory.max.bytes']) // 1024**2} MiB"
    assert told.pop("transaction.max.bytes") == f"{int(defaults['transaction.max.bytes']) // 1024**2} MiB"
    assert {name: defaults[name] for name in told} == told


def test_properties_of_links_have_the_defaults_that_are_told() -> None:
    told = rows("`--set` of `link create` and `link alter`")
    assert told.keys() == PROPERTY_NAMES.keys()
    for name, (default, _) in told.items():
        value = getattr(DEFAULTS, PROPERTY_NAMES[name])
        written = ", ".join(value) if isinstance(value, tuple) else str(value).lower()
        assert default in (f"`{written}`", "internal topics of mirrors"), name


def test_the_states_are_those_that_there_are() -> None:
    assert rows("of a linked partition").keys() == {each.value for each in LinkedPartitionState}
    assert rows("of a flow").keys() == {*get_args(FlowState)}
    assert rows("of a partition of a flow").keys() == {*get_args(PartitionState)}
