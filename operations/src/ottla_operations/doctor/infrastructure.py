"""What all processes stand on: etcd, a leading controller, coordinators, clocks that agree, certificates. Pure."""

import statistics
from collections.abc import Iterator, Sequence

from ottla_operations.doctor.etcd_members import EtcdMember
from ottla_operations.doctor.findings import Facts, Finding, Harm
from ottla_operations.local_clusters.etcd_version import RECOMMENDED_VERSION
from ottla_operations.quantities import human_bytes

QUOTA_FRACTION = 0.8
SKEW_MAX_S = 5.0
"""By how much a clock may differ from the others; NTP keeps them within a tenth of a second."""


def foundations(facts: Facts) -> list[Finding]:
    """Return what is wrong below brokers and clients."""
    return [*_etcd(facts), *_state(facts), *_deciders(facts), *_clocks(facts), *_certificates(facts)]


def is_etcd_full(facts: Facts) -> bool:
    """Return whether etcd refuses changes for its quota, which its health page calls unhealthy."""
    return any(not each.takes_changes for each in facts.etcd)


def _etcd(facts: Facts) -> Iterator[Finding]:
    away = [each for each in facts.etcd if each.problem is not None or not each.has_leader]
    if away and not _is_own(facts):  # its members are processes of the local cluster, and told as these
        majority_is_there = 2 * (len(facts.etcd) - len(away)) > len(facts.etcd)
        yield Finding(
            Harm.AT_RISK if majority_is_there else Harm.UNAVAILABLE, "etcd-away", f"etcd {_urls(away)}",
            "; ".join(dict.fromkeys(each.problem or "it knows no leader of etcd's members" for each in away)),
            f"etcdctl --endpoints={_urls(facts.etcd)} endpoint health",
        )  # fmt: skip
    there = [each for each in facts.etcd if each.problem is None]
    if full := [each for each in there if not each.takes_changes]:
        biggest = max(full, key=lambda each: each.size_bytes)
        urls = _urls(there)
        yield Finding(
            Harm.UNAVAILABLE, "etcd-full", f"etcd {_urls(full)}",
            f"it is at its quota, {human_bytes(biggest.size_bytes)} of {human_bytes(biggest.quota_bytes)}: it takes"
            " no changes, so no leader is elected and no topic is made, until the alarm is taken back",
            f"etcdctl --endpoints={urls} defrag && etcdctl --endpoints={urls} alarm disarm",
        )  # fmt: skip
    elif scarce := [each for each in there if each.size_bytes > each.quota_bytes * QUOTA_FRACTION > 0]:
        biggest = max(scarce, key=lambda each: each.size_bytes / each.quota_bytes)
        yield Finding(
            Harm.AT_RISK, "etcd-fills", f"etcd {_urls(scarce)}",
            f"it uses {human_bytes(biggest.size_bytes)} of its quota of {human_bytes(biggest.quota_bytes)}; there it"
            " takes no more changes",
            f"etcdctl --endpoints={_urls(scarce)} defrag",
        )  # fmt: skip
    if not _is_own(facts):  # `ottla up` says so itself of the one that it starts
        yield from _old_etcd(there)


def _is_own(facts: Facts) -> bool:
    """Return whether this etcd is the one that a local cluster runs itself, asked at any of its addresses."""
    local = facts.local
    if local is None or not local.embedded_etcd:
        return False
    pages = [
        each.metrics.removesuffix("/metrics") for each in local.processes if each.role == "etcd" and each.metrics
    ]
    return all(each.url in (*local.etcd, *pages) for each in facts.etcd)


def _old_etcd(members: list[EtcdMember]) -> Iterator[Finding]:
    known = {each.version for each in members if each.version is not None}
    if known and min(known) < RECOMMENDED_VERSION:
        old = [each for each in members if each.version is not None and each.version < RECOMMENDED_VERSION]
        yield Finding(
            Harm.ADVICE, "etcd-old", f"etcd {_urls(old)}",
            f"its release is {_dotted(min(known))}; before {_dotted(RECOMMENDED_VERSION)} it can lose events of"
            " watches. Replace its members one by one",
            f"etcdctl --endpoints={_urls(members)} endpoint status",
        )  # fmt: skip


def _state(facts: Facts) -> Iterator[Finding]:
    """Tell which brokers do not hear from etcd, as they say themselves, unless etcd has been found to be away."""
    late = sorted(broker for broker, is_out_of_date in facts.out_of_date.items() if is_out_of_date)
    if not late or _is_etcd_away(facts):
        return
    endpoints = f"--endpoints={_urls(facts.etcd)} " if facts.etcd else ""
    remedy = f"etcdctl {endpoints}endpoint health"
    if len(late) == len(facts.out_of_date):
        yield Finding(
            Harm.UNAVAILABLE, "state-out-of-date", "the cluster's state",
            "no broker hears from etcd: no leader is replaced, nothing is made or changed, and groups are not looked"
            " after, until etcd answers again. Look at its members; `--etcd` has their say shown here",
            remedy,
        )  # fmt: skip
        return
    yield Finding(
        Harm.AT_RISK, "state-out-of-date", f"broker {', '.join(map(str, late))}",
        "it does not hear from etcd, as others do: it learns of no new leaders, topics or rights. See its log, and"
        " whether its machine reaches etcd",
        remedy,
    )  # fmt: skip


def _is_etcd_away(facts: Facts) -> bool:
    """Return whether most of etcd's members are known to be away, which is told by them."""
    members = [each.problem is None and each.has_leader for each in facts.etcd]
    processes = (
        [each.state == "ready" for each in facts.local.processes if each.role == "etcd"] if facts.local else []
    )
    return any(2 * sum(each) <= len(each) for each in (members, processes) if each)


def _deciders(facts: Facts) -> Iterator[Finding]:
    """Tell where nobody leads the controllers, or looks after groups, and no process of this cluster explains it."""
    roles_told = {each.role for each in facts.local.processes if each.state != "ready"} if facts.local else set()
    if is_etcd_full(facts) or "etcd" in roles_told or (facts.out_of_date and all(facts.out_of_date.values())):
        return
    if facts.has_controller is False and "controller" not in roles_told:
        yield Finding(
            Harm.UNAVAILABLE, "no-controller", "the controllers",
            "none leads: leaders of partitions are not replaced, and no topic is made or changed. Start one",
            "ottla cluster describe",
        )  # fmt: skip
    elif facts.has_coordinators is False and "group-coordinator" not in roles_told:
        yield Finding(
            Harm.UNAVAILABLE, "no-coordinator", "the group coordinators",
            "nobody looks after consumer groups: their members wait, and no offset is committed. Start one",
            "ottla group list",
        )  # fmt: skip


def _clocks(facts: Facts) -> Iterator[Finding]:
    """Compare with the median of all clocks, this machine's among them, which also decides between two halves."""
    ahead_s = [0.0, *(each.ahead_s for each in facts.clocks)]
    agreed_s = min(statistics.median_low(ahead_s), statistics.median_high(ahead_s), key=abs)
    for each in sorted(facts.clocks, key=lambda clock: clock.name):
        differs_s = each.ahead_s - agreed_s
        if abs(differs_s) - each.uncertain_s > SKEW_MAX_S:
            yield Finding(
                Harm.AT_RISK, "clock-skew", each.name,
                f"its clock is {abs(differs_s):,.0f} s {'ahead of' if differs_s > 0 else 'behind'} the others:"
                " retention, timestamps and lag in seconds are wrong by as much. Set it on its machine",
                "timedatectl set-ntp true",
            )  # fmt: skip


def _certificates(facts: Facts) -> Iterator[Finding]:
    if not facts.days_left or facts.local is None:
        return
    holders = ", ".join(sorted(facts.days_left))
    days = min(facts.days_left.values())
    ends = "have ended" if days < 0 else f"end within {days + 1} days"
    yield Finding(
        Harm.AT_RISK, "certificates-end", holders,
        f"certificates {ends}; then nobody is served who has one of them, and nobody takes it from a server",
        f"ottla secure renew {facts.local.directory}/tls",
    )  # fmt: skip


def _urls(members: Sequence[EtcdMember]) -> str:
    return ",".join(each.url for each in members)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
