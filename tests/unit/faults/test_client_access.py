"""Programs of the load find their logins in files, have the rights that they need only, and tell of refusals."""

from pathlib import Path

import pytest

from ottla_core.acls import AclOperation, PatternType, Permission, ResourceKind
from tests.faults.access.client_access import BEARER_TOKEN, DELEGATION_TOKEN, NOBODY, TOKEN_EXPIRY, ClientAccess
from tests.faults.access.mechanisms import JAVA, LIBRDKAFKA, OUR_OWN, WORKER, Mechanism, drawn_mechanism
from tests.faults.access.secured_clients import (
    IMPOSTOR,
    OUTSIDER,
    OUTSIDERS_BINDINGS,
    OUTSIDERS_DENIALS,
    OUTSIDERS_TOPIC,
    ROTATING,
    LoadUsers,
)
from tests.faults.load import CARELESS, PRODUCERS, READERS, load_rights, refused_lines
from tests.faults.mirrors.mirror_load import LINK, source_rights, target_rights, worker_names
from tests.faults.mirrors.operated_topics import GROWING, REBORN
from tests.faults.topics import LINKED_TOPICS
from tests.faults.transactions.transaction_load import COPIERS, WRITERS, transaction_rights
from tests.support.groups.group_load import GROUP_PREFIX


def test_a_login_is_read_as_it_was_written_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    access = ClientAccess({"sasl.username": "a", "sasl.password": "b=c"})
    file = access.write(tmp_path / "a.properties")
    assert ClientAccess.read(file) == access
    assert file.stat().st_mode & 0o077 == 0
    assert not NOBODY.settings


def test_librdkafka_is_given_a_bearer_token_by_a_function_and_nothing_of_ours() -> None:
    access = ClientAccess({"sasl.mechanism": "OAUTHBEARER", BEARER_TOKEN: "a.b.c", TOKEN_EXPIRY: "17"})
    settings = access.client_settings
    assert settings.keys() == {"sasl.mechanism", BEARER_TOKEN, "oauth_cb"}
    assert settings["oauth_cb"](settings[BEARER_TOKEN]) == ("a.b.c", 17.0)
    delegated = ClientAccess({"sasl.username": "id", DELEGATION_TOKEN: "true"})
    assert delegated.client_settings == {"sasl.username": "id"}
    assert delegated.security_settings == {"sasl.username": "id"}


@pytest.mark.parametrize(("able", "count"), [(LIBRDKAFKA, 5), (OUR_OWN, 6), (JAVA, 5), (WORKER, 4)])
def test_seeds_draw_every_mechanism_that_a_client_can_and_no_other(able, count: int) -> None:
    drawn = {drawn_mechanism("producer-0", able, seed) for seed in range(100)}
    assert drawn == set(able)
    assert len(drawn) == count
    assert drawn_mechanism("a", able, 7) is drawn_mechanism("a", able, 7)


def test_users_of_one_trial_have_different_mechanisms() -> None:
    mechanisms = LoadUsers(rights=load_rights(), seed=3).mechanisms()
    assert mechanisms.keys() == {*load_rights(), OUTSIDER, ROTATING, IMPOSTOR}
    assert len({mechanisms[name] for name in load_rights()}) > 1
    assert mechanisms[ROTATING] is Mechanism.SCRAM_SHA_512


def test_mirror_workers_and_links_have_the_rights_of_the_page() -> None:
    source, target = source_rights(), target_rights()
    topics = {each.name for each in source[LINK] if each.kind is ResourceKind.TOPIC}
    assert topics == {*(topic.name for topic in LINKED_TOPICS), REBORN.linked, GROWING.linked}
    for name in worker_names():
        assert AclOperation.WRITE not in {
            each.operation for each in source[name] if not each.name.startswith(("mm2-offset-syncs.", "heartbeats"))
        }
        assert all(each.operation is not None and each.kind is not ResourceKind.CLUSTER for each in target[name])
    assert {each.name for each in source[LINK] if each.kind is ResourceKind.GROUP} == {GROUP_PREFIX}


OF_WORKERS = {*worker_names(), LINK}


@pytest.mark.parametrize("rights", [load_rights, transaction_rights, source_rights, target_rights])
def test_rights_are_each_users_own_and_for_nothing_that_they_do_not_name(rights) -> None:
    for user, bindings in rights().items():
        assert bindings
        if user in OF_WORKERS:
            continue
        for binding in bindings:
            assert binding.principal == f"User:{user}"
            assert binding.permission is Permission.ALLOW
            assert binding.operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
            assert binding.name not in ("", "*")
            assert binding.pattern is PatternType.LITERAL or binding.kind is not ResourceKind.TOPIC


def test_who_only_reads_may_not_write_and_who_only_writes_may_not_read() -> None:
    rights = load_rights()
    writers = [CARELESS, *(f"producer-{number}" for number in range(PRODUCERS))]
    assert {each.operation for name in writers for each in rights[name]} == {AclOperation.WRITE}
    assert {each.operation for name in READERS for each in rights[name]} == {AclOperation.READ}


def test_copiers_may_not_write_what_they_read() -> None:
    rights = transaction_rights()
    assert rights.keys() >= WRITERS.keys() | COPIERS.keys()
    for name, copier in COPIERS.items():
        source, target = copier.topics
        topics = {(each.operation, each.name) for each in rights[name] if each.kind is ResourceKind.TOPIC}
        assert topics == {(AclOperation.READ, source), (AclOperation.WRITE, target)}


def test_the_outsider_has_only_its_topic() -> None:
    assert {(each.principal, each.name) for each in OUTSIDERS_BINDINGS} == {(f"User:{OUTSIDER}", OUTSIDERS_TOPIC)}
    assert {each.operation for each in OUTSIDERS_BINDINGS} == {AclOperation.READ, AclOperation.WRITE}
    assert [each.operation for each in OUTSIDERS_DENIALS] == [each.operation for each in OUTSIDERS_BINDINGS]
    assert {each.permission for each in OUTSIDERS_DENIALS} == {Permission.DENY}


@pytest.mark.parametrize(
    "line",
    [
        "failed\tfruit\tp0-k1\t7\tTOPIC_AUTHORIZATION_FAILED",
        "%3|FAIL|x| sasl_ssl://h:1: SASL authentication error: Authentication failed during authentication",
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized",
        "ended\ta\t1\taborted after topic_authorization_failed",
    ],
)
def test_a_refusal_is_found_whoever_tells_it(line: str) -> None:
    assert list(refused_lines(f"before\n{line}\nbehind\n")) == [line]


def test_other_lines_tell_of_no_refusal() -> None:
    text = (
        "failed\tfruit\tp0-k1\t7\t_MSG_TIMED_OUT\n%7|REAUTH|x| session expires\nSSL handshake failed: Disconnected\n"
        "SASL authentication error: SaslAuthenticateRequest failed: Local: Broker transport failure\n"
    )
    assert not list(refused_lines(text))
