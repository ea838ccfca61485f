"""Runs Apache Kafka's own command-line tools by their Java classes."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.reference.kafka_jars import java_command

DEADLINE_S = 120.0

TOPICS = "org.apache.kafka.tools.TopicCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"

# What DumpLogSegments writes when a log and its indexes do not belong together.
DUMP_COMPLAINTS = (
    "Mismatches in",
    "Non-consecutive offsets",
    "timestamp mismatch",
    "out of order timestamp",
    "not found in the log",
    "invalid bytes",
    "isvalid: false",
    "Exception",
)


class ToolFailed(AssertionError):
    """A tool ended with an exit code other than 0; the message has its output."""


def run_tool(main_class: str, *arguments: str, standard_input: str = "") -> str:
    """Runs a tool and returns what it wrote to standard output and standard error.

    Raises:
        ToolFailed: its exit code was not 0.
    """
    code, output = _run(main_class, arguments, standard_input)
    if code != 0:
        raise ToolFailed(f"{main_class} ended with {code}:\n{output}")
    return output


def run_tool_anyhow(main_class: str, *arguments: str) -> str:
    """What a tool writes that is expected to be refused; some of them end with 0 all the same."""
    return _run(main_class, arguments)[1]


def dump_segments(files: Sequence[Path]) -> str:
    """DumpLogSegments with deep iteration; checks that it finds nothing to complain about."""
    output = run_tool(DUMP_LOG_SEGMENTS, "--deep-iteration", "--files", ",".join(str(path) for path in files))
    complaints = [line for line in output.splitlines() if any(complaint in line for complaint in DUMP_COMPLAINTS)]
    assert not complaints, complaints
    return output


def _run(main_class: str, arguments: Sequence[str], standard_input: str = "") -> tuple[int, str]:
    """Exit code and output."""
    outcome = subprocess.run(
        java_command(main_class, *arguments),
        input=standard_input,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return outcome.returncode, outcome.stdout
