"""What `ottla doctor` finds in etcd, in controllers and coordinators, and in clocks."""

from typing import Any

import pytest

from ottla_operations.doctor.etcd_members import EtcdMember, read_member
from ottla_operations.doctor.findings import Clock, Facts, Finding, Harm
from ottla_operations.doctor.infrastructure import foundations
from ottla_operations.local_clusters.cluster_report import ClusterReport, ProcessReport

URLS = ("http://a:2379", "http://b:2379", "http://c:2379")


def member(url: str = URLS[0], **others: Any) -> EtcdMember:
    return EtcdMember(**{"url": url, "version": (3, 5, 16), "quota_bytes": 100, **others})


def only(facts: Facts) -> Finding:
    (found,) = foundations(facts)
    return found


def told(facts: Facts) -> list[tuple[str, Harm]]:
    return [(each.rule, each.harm) for each in foundations(facts)]


def local(*states: tuple[str, str], metrics: str | None = None) -> ClusterReport:
    processes = tuple(
        ProcessReport(role, 1, 1, "1", "127.0.0.1:1", 1, None, metrics, "log", state)  # type: ignore[arg-type]
        for role, state in states
    )
    return ClusterReport("127.0.0.1:9092", "/d", "running", (URLS[0],), True, 1, 1, 9092, 1, "1", "log", processes)


def test_two_pages_of_a_member_tell_its_release_its_room_and_its_alarm() -> None:
    metrics = (
        "# HELP etcd_server_version Which version is running.\n"
        'etcd_server_version{server_version="3.5.1"} 1\n'
        "etcd_server_has_leader 0\n"
        "etcd_server_quota_backend_bytes 2.147483648e+09\n"
        "etcd_mvcc_db_total_size_in_bytes 352256\n"
    )

    seen = read_member("http://a:2379", metrics, '{"health":"false","reason":"ALARM NOSPACE"}')

    assert seen == member(
        version=(3, 5, 1), has_leader=False, takes_changes=False, size_bytes=352256, quota_bytes=2147483648
    )
    assert read_member("http://a:2379", "", "nonsense") == EtcdMember(url="http://a:2379")


def test_etcd_with_room_and_of_a_good_release_is_nothing() -> None:
    assert told(Facts(etcd=[member(size_bytes=80)])) == []


def test_etcd_that_has_used_most_of_its_quota_is_told_before_it_is_full() -> None:
    assert told(Facts(etcd=[member(size_bytes=81)])) == [("etcd-fills", Harm.AT_RISK)]


def test_etcd_that_refuses_changes_is_told_with_all_members_to_defragment() -> None:
    found = only(Facts(etcd=[member(URLS[0], size_bytes=120, takes_changes=False), member(URLS[1])]))

    assert (found.rule, found.harm) == ("etcd-full", Harm.UNAVAILABLE)
    assert "--endpoints=http://a:2379,http://b:2379 alarm disarm" in found.remedy


def test_a_full_etcd_explains_that_nobody_leads() -> None:
    seen = Facts(etcd=[member(size_bytes=120, takes_changes=False)], has_controller=False, has_coordinators=False)

    assert told(seen) == [("etcd-full", Harm.UNAVAILABLE)]


@pytest.mark.parametrize(("away", "harm"), [(1, Harm.AT_RISK), (2, Harm.UNAVAILABLE)])
def test_members_of_etcd_that_do_not_answer_matter_by_how_many_are_left(away: int, harm: Harm) -> None:
    there = [member(each) for each in URLS[away:]]

    found = only(Facts(etcd=[*(EtcdMember(url=each, problem="refused") for each in URLS[:away]), *there]))

    assert (found.rule, found.harm, found.what) == ("etcd-away", harm, "refused")


def test_an_old_etcd_is_advice_unless_a_local_cluster_runs_it_itself() -> None:
    old = member(version=(3, 5, 1))

    assert told(Facts(etcd=[old])) == [("etcd-old", Harm.ADVICE)]
    assert told(Facts(etcd=[old], local=local(("etcd", "ready")))) == []


def test_etcd_that_a_local_cluster_runs_itself_is_told_by_its_process_wherever_it_was_asked() -> None:
    away = EtcdMember(url="http://127.0.0.1:9379", problem="timed out")

    assert told(Facts(etcd=[away], local=local(("etcd", "not ready")))) == [("etcd-away", Harm.UNAVAILABLE)]
    secured = local(("etcd", "not ready"), metrics="http://127.0.0.1:9379/metrics")
    assert told(Facts(etcd=[away], local=secured)) == []


def test_no_controller_and_no_coordinator_are_told_unless_a_process_explains_it() -> None:
    assert told(Facts(has_controller=False, has_coordinators=False)) == [("no-controller", Harm.UNAVAILABLE)]
    assert told(Facts(has_controller=True, has_coordinators=False)) == [("no-coordinator", Harm.UNAVAILABLE)]
    assert told(Facts(has_controller=False, local=local(("controller", "not ready")))) == []
    assert told(Facts(has_controller=None, has_coordinators=None)) == []


def test_brokers_none_of_which_hears_from_etcd_are_told_as_one_whatever_they_say_of_the_others() -> None:
    found = only(Facts(out_of_date={1: True, 2: True}, has_controller=False, has_coordinators=False))

    assert (found.rule, found.where, found.harm) == ("state-out-of-date", "the cluster's state", Harm.UNAVAILABLE)
    assert found.remedy == "etcdctl endpoint health"


def test_a_broker_that_alone_does_not_hear_from_etcd_is_named() -> None:
    found = only(Facts(out_of_date={1: False, 2: True, 3: False}, has_controller=True, etcd=[member()]))

    assert (found.rule, found.where, found.harm) == ("state-out-of-date", "broker 2", Harm.AT_RISK)
    assert found.remedy == "etcdctl --endpoints=http://a:2379 endpoint health"


def test_brokers_that_hear_from_etcd_are_nothing() -> None:
    assert told(Facts(out_of_date={1: False, 2: False}, has_controller=True)) == []


def test_etcd_that_is_seen_to_be_away_explains_what_brokers_do_not_hear() -> None:
    away = [EtcdMember(url=URLS[0], problem="refused"), EtcdMember(url=URLS[1], problem="refused"), member(URLS[2])]

    assert told(Facts(out_of_date={1: True}, etcd=away)) == [("etcd-away", Harm.UNAVAILABLE)]
    assert told(Facts(out_of_date={1: True}, local=local(("etcd", "not ready")))) == []


def test_a_single_member_of_etcd_that_is_away_does_not_explain_it() -> None:
    one_away = [EtcdMember(url=URLS[0], problem="refused"), member(URLS[1]), member(URLS[2])]
    processes = local(("etcd", "not ready"), ("etcd", "ready"), ("etcd", "ready"))

    seen = [("etcd-away", Harm.AT_RISK), ("state-out-of-date", Harm.UNAVAILABLE)]
    assert told(Facts(out_of_date={1: True}, etcd=one_away)) == seen
    assert told(Facts(out_of_date={1: True}, local=processes)) == [("state-out-of-date", Harm.UNAVAILABLE)]


def test_a_clock_that_differs_from_most_is_told_with_the_side() -> None:
    found = only(Facts(clocks=[Clock("broker 1", 0.1, 0.0), Clock("broker 2", -61.0, 0.5)]))

    assert (found.rule, found.where) == ("clock-skew", "broker 2")
    assert "61 s behind the others" in found.what


@pytest.mark.parametrize("ahead_s", [-90.0, 90.0])
def test_the_clock_of_a_broker_that_is_alone_is_compared_with_this_machine(ahead_s: float) -> None:
    assert told(Facts(clocks=[Clock("broker 1", ahead_s, 0.0)])) == [("clock-skew", Harm.AT_RISK)]


def test_a_clock_that_differs_by_less_than_is_known_is_not_told() -> None:
    assert told(Facts(clocks=[Clock("broker 1", 6.0, 1.5), Clock("broker 2", 0.0, 0.0)])) == []


def test_the_clock_of_this_machine_may_be_the_one_that_is_wrong() -> None:
    assert told(Facts(clocks=[Clock("broker 1", 3600.0, 0.1), Clock("broker 2", 3600.2, 0.1)])) == []


@pytest.mark.parametrize(("days", "says"), [(12, "end within 13 days"), (-1, "have ended")])
def test_certificates_that_end_soon_are_named_with_what_renews_them(days: int, says: str) -> None:
    found = only(Facts(local=local(), days_left={"broker-1": days, "admin": 29}))
    assert (found.rule, found.harm, found.where) == ("certificates-end", Harm.AT_RISK, "admin, broker-1")
    assert says in found.what
    assert found.remedy == "ottla secure renew /d/tls"


def test_certificates_are_no_matter_while_they_hold() -> None:
    assert told(Facts(local=local())) == []
