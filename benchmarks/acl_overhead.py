"""What access control lists cost on the path of a produce: a broker that asks many of them beside one that asks none.

Both brokers run the same sources and are started here; one has an authorizer and `BINDINGS` bindings, of which a few
are for the client. Rounds of both alternate, as in `metrics_overhead`, and what counts is the CPU time of the
brokers' processes: each pair of rounds gives a ratio, of which the median is told.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AclBinding as ClientAclBinding
from confluent_kafka.admin import AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType

from benchmarks.acl_bindings import bindings
from benchmarks.client import Subject
from benchmarks.metrics_overhead import CASES, MetricsPlan, ratios
from benchmarks.summary import Measures
from ottla_core.acls import AclBinding, ResourceKind
from tests.support.clusters.ottla_cluster import OttlaCluster

BINDINGS_AT_ONCE: Final = 1000
TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class AclPlan:
    """How long to measure, and with how many bindings."""

    rounds: int = 60
    bindings: int = 10_000


def measure(directory: Path, plan: AclPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return for each case the median of the ratios of CPU time, with lists to without, less one, in percent."""
    settings = {
        "authorizer.class.name": "StandardAuthorizer",
        # The lists have to be made by somebody; the client is no super user any more when they are there.
        "allow.everyone.if.no.acl.found": "true",
    }
    arguments = [each for name, value in settings.items() for each in ("--set", f"broker:{name}={value}")]
    with ExitStack() as running:
        guarded = running.enter_context(OttlaCluster(directory / "guarded", arguments=arguments))
        open_ = running.enter_context(OttlaCluster(directory / "open"))
        _create_bindings(guarded.bootstrap, plan.bindings, say)
        subjects = [Subject(each.bootstrap, each.broker.pid) for each in (guarded, open_)]
        timing = MetricsPlan(rounds=plan.rounds)
        return {case: ratios(subjects, case, timing, say, named=("with lists", "without")) for case in CASES}


def _create_bindings(bootstrap: str, count: int, say: Callable[[str], None]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [_of_the_client(each) for each in bindings(count)]
    for begin in range(0, len(wanted), BINDINGS_AT_ONCE):
        for future in admin.create_acls(wanted[begin : begin + BINDINGS_AT_ONCE]).values():
            future.result(TIMEOUT_S)
    say(f"{len(wanted)} bindings are there")


def _of_the_client(binding: AclBinding) -> ClientAclBinding:
    kind = ResourceType.BROKER if binding.kind is ResourceKind.CLUSTER else ResourceType[binding.kind.name]
    return ClientAclBinding(
        kind,
        binding.name,
        ResourcePatternType[binding.pattern.name],
        binding.principal,
        binding.host,
        AclOperation.ALL if binding.operation is None else AclOperation[binding.operation.name],
        AclPermissionType[binding.permission.name],
    )
