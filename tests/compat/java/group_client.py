"""The Java consumer as a member of a group, by Kafka's VerifiableConsumer.

It writes what happens to it as JSON lines, commits after every batch of records (or automatically if told to), and
leaves on SIGTERM. It obeys no commands.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.compat.group_crew import Event
from tests.compat.group_member_program import MemberSpec
from tests.support.reference.kafka_jars import java_command

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
REFUSALS = ("FencedInstanceIdException", "UnreleasedInstanceIdException")
TERMINATED_BY_SIGTERM = 143
EVENTS = {"partitions_assigned": "assigned", "partitions_revoked": "revoked", "partitions_lost": "lost"}


class JavaGroupClient:
    """Starts VerifiableConsumer and reads its events."""

    obeys = False
    exit_code = TERMINATED_BY_SIGTERM

    def __init__(self, directory: Path):
        self._directory = directory

    def command(self, spec: MemberSpec) -> list[str]:
        arguments = ["--bootstrap-server", spec.bootstrap, "--group-id", spec.group, "--verbose"]
        arguments += ["--topic", *spec.topics, "--group-protocol", spec.protocol.upper()]
        arguments += ["--command-config", str(self._settings(spec))]
        if spec.protocol == "classic":
            arguments += ["--session-timeout", str(spec.session_timeout_ms)]
            arguments += ["--assignment-strategy", ASSIGNORS[spec.assignor or "range"]]
        elif spec.assignor is not None:
            arguments += ["--group-remote-assignor", spec.assignor]
        if spec.instance_id is not None:
            arguments += ["--group-instance-id", spec.instance_id]
        if spec.auto_commit_ms is not None:
            arguments.append("--enable-autocommit")
        return java_command(VERIFIABLE_CONSUMER, *arguments)

    def event(self, line: str) -> Event | None:
        if any(refusal in line for refusal in REFUSALS):
            return {"event": "failed", "error": line}
        if not line.startswith("{"):
            return None
        told: dict[str, Any] = json.loads(line)
        if told["name"] == "record_data":
            return {"event": "record", **{key: told[key] for key in ("topic", "partition", "offset")}}
        if told["name"] == "offsets_committed":
            return {"event": "committed", "error": told.get("error")}
        if told["name"] in EVENTS:
            partitions = [(each["topic"], each["partition"]) for each in told["partitions"]]
            return {"event": EVENTS[told["name"]], "partitions": partitions}
        return None

    def _settings(self, spec: MemberSpec) -> Path:
        settings = {"metadata.max.age.ms": 1000, "fetch.max.wait.ms": 50}
        if spec.protocol == "classic":
            settings["heartbeat.interval.ms"] = spec.heartbeat_interval_ms
        if spec.auto_commit_ms is not None:
            settings["auto.commit.interval.ms"] = spec.auto_commit_ms
        with tempfile.NamedTemporaryFile("w", suffix=".properties", dir=self._directory, delete=False) as file:
            file.write("".join(f"{key}={value}\n" for key, value in settings.items()))
        return Path(file.name)
