"""What services and the local cluster's supervisor do not import: it would cost each start time and memory."""

import json
import os
import subprocess
import sys

import pytest

from ottla_core.lean_imports import LEFT_OUT

OF_OTHERS = {"aiohttp", "confluent_kafka", "httpx", "multiprocessing", "numpy", "typer", "unittest", "yaml"}
"""Libraries that are installed for tests, for clients or for other programs."""
METRICS = {"opentelemetry", "prometheus_client", "requests"}
"""Imported by a process that serves metrics, or makes traces."""
PULLED_IN = {"attr", "pygments", "sortedcontainers"}
"""What comes with the libraries that are left out."""
FORBIDDEN_IN_SERVICES = OF_OTHERS | METRICS | PULLED_IN | set(LEFT_OUT)
FORBIDDEN_IN_SUPERVISOR = {"confluent_kafka", "grpc", "httpx", "kio", "structlog", "yaml", "ottla_broker"}
SHOW_MODULES = "import sys, json; print(json.dumps([name for name, module in sys.modules.items() if module]))"


def modules_after(statement: str) -> set[str]:
    """The top-level packages that a new interpreter has imported, with all that is installed here in its way."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", f"{statement}\n{SHOW_MODULES}"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    return {name.partition(".")[0] for name in json.loads(answer.stdout)}


@pytest.mark.parametrize("service", ["ottla_broker", "ottla_controller", "ottla_group_coordinator"])
def test_a_service_imports_nothing_that_it_does_not_need(service: str) -> None:
    imported = modules_after(
        f"from ottla_core.lean_imports import leave_out_extras; leave_out_extras(); import {service}.app"
    )
    assert service in imported
    assert not imported & FORBIDDEN_IN_SERVICES


@pytest.mark.parametrize("service", ["ottla_broker", "ottla_controller", "ottla_group_coordinator"])
def test_a_services_program_leaves_the_extras_out(service: str) -> None:
    run_without_arguments = f"import sys, {service}.__main__ as program; sys.argv = ['x']; program.main()"
    imported = modules_after(run_without_arguments)  # it ends because its settings lack a node.id
    assert f"{service}" in imported
    assert not imported & FORBIDDEN_IN_SERVICES


def test_the_supervisor_of_a_local_cluster_imports_no_service_and_nothing_of_other_commands() -> None:
    imported = modules_after("import ottla.command_tree, ottla.commands.local_cluster, ottla.local.detached")
    assert "ottla" in imported
    assert not imported & FORBIDDEN_IN_SUPERVISOR


SEE_GRPC = """
import os, sys
class Watch:
    def find_spec(self, name, *others):
        if name == "grpc":
            print("GRPC_VERBOSITY", os.environ.get("GRPC_VERBOSITY"), file=sys.stderr)
sys.meta_path.insert(0, Watch())
sys.argv = ["x"]
"""


@pytest.mark.parametrize(
    "statement",
    [
        "import ottla_broker.__main__ as program; program.main()",
        "import ottla_controller.__main__ as program; program.main()",
        "import ottla_group_coordinator.__main__ as program; program.main()",
        "import ottla.local.health, grpc",
        "import ottla_core.rpc.channel",
    ],
)
def test_grpc_is_told_to_be_quiet_before_it_is_imported(statement: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    command = [sys.executable, "-c", f"{SEE_GRPC}{statement}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert [line for line in done.stderr.splitlines() if line.startswith("GRPC_")] == ["GRPC_VERBOSITY NONE"]
