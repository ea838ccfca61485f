"""kcat as a member of a group (`kcat -G`): it commits by itself and leaves on SIGTERM.

What it owns it writes to standard error for people, which is read here; it obeys no commands.
"""

import re

from tests.compat.group_crew import Event
from tests.compat.group_member_program import MemberSpec

_REBALANCED = re.compile(
    r"% Group \S+ rebalanced(?:: incremental (?P<change>assignment|revoke) of \d+ partition\(s\))? "
    r"\(memberid .*?\): (?:(?P<eager>assigned|revoked): )?(?P<partitions>.*)"
)
_PARTITION = re.compile(r"(\S+) \[(\d+)\]")


class KcatGroupClient:
    """Starts kcat and reads what it writes."""

    obeys = False
    exit_code = 0

    def command(self, spec: MemberSpec) -> list[str]:
        topics = list(spec.topics) if spec.pattern is None else [f"^{spec.pattern}"]
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": spec.session_timeout_ms,
            "heartbeat.interval.ms": spec.heartbeat_interval_ms,
            "partition.assignment.strategy": spec.assignor or "range",
            "enable.auto.commit": str(spec.auto_commit_ms is not None).lower(),
            "auto.commit.interval.ms": spec.auto_commit_ms or 5000,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if spec.instance_id is not None:
            settings["group.instance.id"] = spec.instance_id
        properties = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
        return [
            "kcat",
            "-b",
            spec.bootstrap,
            "-u",
            "-f",
            "record|%t|%p|%o\\n",
            *properties,
            "-G",
            spec.group,
            *topics,
        ]

    def event(self, line: str) -> Event | None:
        if line.startswith("record|"):
            _, topic, partition, offset = line.split("|")
            return {"event": "record", "topic": topic, "partition": int(partition), "offset": int(offset)}
        if line.startswith("% ERROR"):
            return {"event": "failed", "error": line}
        found = _REBALANCED.fullmatch(line)
        if found is None:
            return None
        is_assigned = (found["eager"] or found["change"]) in ("assigned", "assignment")
        partitions = [(topic, int(number)) for topic, number in _PARTITION.findall(found["partitions"])]
        return {"event": "assigned" if is_assigned else "revoked", "partitions": partitions}
