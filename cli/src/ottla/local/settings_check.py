"""Checking `--set` before anything starts, by a process of its own.

What may be set is known by the services' models, which the supervisor does not import. As a program it reads a JSON
object of roles with the properties of each of their processes, and prints one of the problems by role.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ottla_operations.errors import UsageProblem

CHECKED_WITHIN_S = 30.0


def check_properties(by_role: Mapping[str, Sequence[str]]) -> None:
    """See that services would take these settings.

    Args:
        by_role: for each role the texts of its processes' properties files.

    Raises:
        UsageProblem: says everything that is wrong.
    """
    checking = subprocess.run(
        [sys.executable, "-m", "ottla.local.settings_check"],
        input=json.dumps(by_role),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=CHECKED_WITHIN_S,
    )
    if checking.returncode != 0:
        return  # the services themselves say what is wrong
    problems: dict[str, list[str]] = json.loads(checking.stdout)
    told = [f"{role}: {problem}" for role, found in problems.items() for problem in found]
    if told:
        raise UsageProblem("--set: " + "\n  ".join(told))


def problems_by_role(by_role: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return what is wrong with settings, by role, each once."""
    from ottla_core.config import validated  # noqa: PLC0415 - only the program needs the services
    from ottla_core.errors import ConfigurationError  # noqa: PLC0415

    found: dict[str, dict[str, None]] = {}
    for role, processes in by_role.items():
        for text in processes:
            try:
                if role == "mirror":
                    _check_mirror(text)
                else:
                    values = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
                    validated(_model(role), values, {})
            except ConfigurationError as error:
                # The first line is a heading.
                lines = [line.strip() for line in str(error).splitlines()[1:]]
                found.setdefault(role, {}).update(dict.fromkeys(lines))
    return {role: list(problems) for role, problems in found.items()}


def _check_mirror(text: str) -> None:
    """See that a mirror worker would take its file, which is one of Java's properties.

    Raises:
        ConfigurationError: says everything that is wrong.
    """
    from ottla_mirror.config.mirror_config import MirrorConfig  # noqa: PLC0415
    from ottla_sdk.runtime.java_properties import parse_properties  # noqa: PLC0415

    MirrorConfig.parse(parse_properties(text))


def _model(role: str) -> Any:
    if role == "broker":
        from ottla_broker.config import BrokerConfig  # noqa: PLC0415

        return BrokerConfig
    if role == "controller":
        from ottla_controller.config import ControllerConfig  # noqa: PLC0415

        return ControllerConfig
    if role == "group-coordinator":
        from ottla_group_coordinator.config import GroupCoordinatorConfig  # noqa: PLC0415

        return GroupCoordinatorConfig
    if role == "console":
        from ottla_console.config.console_config import ConsoleConfig  # noqa: PLC0415

        return ConsoleConfig
    from ottla_connect.config import WorkerConfig  # noqa: PLC0415

    return WorkerConfig


if __name__ == "__main__":
    print(json.dumps(problems_by_role(json.load(sys.stdin))))
