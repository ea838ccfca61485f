"""`--set` of `ottla up`."""

import pytest

from ottla.local.settings import (
    BadSetting,
    Setting,
    check_settings,
    parse_setting,
    properties_text,
    settings_for,
    settled_settings,
)
from ottla.local.settings_check import problems_by_role
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.config import ClusterProcessConfig
from ottla_group_coordinator.config import GroupCoordinatorConfig

MODELS = {"broker": BrokerConfig, "controller": ControllerConfig, "group-coordinator": GroupCoordinatorConfig}


def test_a_setting_names_its_role_key_and_value():
    assert parse_setting("broker:log.retention.hours=1") == Setting("broker", None, "log.retention.hours", "1")


def test_a_setting_can_be_for_one_process():
    assert parse_setting("broker-2:broker.rack=a") == Setting("broker", 2, "broker.rack", "a")
    assert parse_setting("group-coordinator-3:x=y") == Setting("group-coordinator", 3, "x", "y")


def test_a_setting_can_be_for_connect_workers():
    assert parse_setting("connect:key.converter=x") == Setting("connect", None, "key.converter", "x")
    with pytest.raises(BadSetting, match="decided by"):
        parse_setting("connect-1:bootstrap.servers=other:9092")


def test_a_role_may_have_a_hyphen():
    assert parse_setting("group-coordinator:a-1:b=c") == Setting("group-coordinator", None, "a-1:b", "c")


def test_a_value_may_hold_equals_signs_colons_and_nothing():
    assert parse_setting("controller:etcd.password=a=b:c").value == "a=b:c"
    assert parse_setting("broker:x=").value == ""


@pytest.mark.parametrize(
    "text",
    [
        "group:x=1",
        "group-coordinator-:x=1",
        "group-coordinator-a:x=1",
        "log.retention.hours=1",
        "etcd:x=1",
        "broker:x",
        "broker:=1",
        "",
        "broker:a=b\nc=d",
    ],
)
def test_what_is_no_setting_is_refused(text):
    with pytest.raises(BadSetting, match="ROLE:KEY=VALUE"):
        parse_setting(text)


def test_the_message_shows_how_the_setting_is_written():
    with pytest.raises(BadSetting, match=r"broker:log\.retention\.hours=1"):
        parse_setting("broker.log.retention.hours=1")
    with pytest.raises(BadSetting, match=r"for example group-coordinator:group\.max\.size=1"):
        parse_setting("group-coordinator.group.max.size=1")


def test_what_the_launcher_decides_cannot_be_set():
    with pytest.raises(BadSetting, match="decided by"):
        parse_setting("broker:rpc.listener=127.0.0.1:1")


def test_a_setting_for_one_process_wins_over_one_for_its_role():
    settings = [parse_setting("broker-2:x=two"), parse_setting("broker:x=all"), parse_setting("controller:x=other")]
    assert settings_for(settings, "broker", 1) == {"x": "all"}
    assert settings_for(settings, "broker", 2) == {"x": "two"}


def test_properties_are_one_line_each():
    assert properties_text({"a.b": "1", "c": ""}).splitlines()[1:] == ["a.b=1", "c="]


def test_every_setting_that_two_roles_know_reaches_both_whichever_it_is_set_for():
    for role, model in MODELS.items():
        for key in model.known_keys():
            reached = {
                other for other in MODELS if settings_for([Setting(role, None, key, "x")], other, 1).get(key) == "x"
            }
            known = {other for other, its in MODELS.items() if key in its.known_keys()}
            assert reached == ({role} if key in ClusterProcessConfig.known_keys() else known), f"{role}:{key}"


def test_what_a_role_is_told_itself_wins_over_what_the_other_one_is_told():
    settings = [Setting("broker", None, "num.partitions", "3"), Setting("controller", None, "num.partitions", "4")]
    for ordered in (settings, settings[::-1]):
        assert settings_for(ordered, "broker", 1) == {"num.partitions": "3"}
        assert settings_for(ordered, "controller", 1) == {"num.partitions": "4"}


def test_what_one_process_is_told_is_its_own():
    assert settings_for([Setting("broker", 1, "num.partitions", "3")], "controller", 1) == {}


def test_a_broker_can_be_told_what_to_tell_clients_but_several_not_the_same():
    address = "advertised.listeners=PLAINTEXT://broker.example:9092"
    for_all, for_one = parse_setting(f"broker:{address}"), parse_setting(f"broker-1:{address}")
    check_settings([for_all], 1)
    check_settings([for_one], 3)
    with pytest.raises(BadSetting, match="broker-1:advertised"):
        check_settings([for_all], 3)


def test_a_broker_listens_at_more_addresses_but_several_not_at_the_same():
    for_all, for_one = parse_setting("broker:listeners=SSL://h:1"), parse_setting("broker-1:listeners=SSL://h:1")
    check_settings([for_all], 1)
    check_settings([for_one], 3)
    with pytest.raises(BadSetting, match="broker-1:listeners"):
        check_settings([for_all], 3)
    with pytest.raises(BadSetting, match="another name"):
        check_settings([parse_setting("broker:listeners=plaintext://h:1")], 1)
    check_settings([parse_setting("broker:listeners=SASL_PLAINTEXT://h:1,SASL_SSL://h:2")], 1)
    with pytest.raises(BadSetting, match="decided by"):
        parse_setting("connect:listeners=http://h:1")


def settings(*texts):
    return tuple(parse_setting(text) for text in texts)


def test_settings_of_the_last_time_are_kept_until_they_are_changed_or_taken_back():
    before = settings("broker:log.retention.hours=1", "broker-1:broker.rack=a")
    assert settled_settings(before, (), ()) == before
    changed = settled_settings(before, settings("broker:log.retention.hours=2"), ())
    assert {each.text for each in changed} == {"broker:log.retention.hours=2", "broker-1:broker.rack=a"}
    assert settled_settings(before, (), ["broker-1:broker.rack"]) == before[:1]


def test_a_setting_that_was_never_set_cannot_be_taken_back():
    with pytest.raises(BadSetting, match="broker:x was not set in this directory; set are: broker:y"):
        settled_settings(settings("broker:y=1"), (), ["broker:x"])


@pytest.mark.parametrize(
    "text",
    [
        "connect:value.converter.basic.auth.user.info=me:geheim",
        "connect:producer.sasl.oauthbearer.clientSecret=geheim",
        "connect:value.converter.schema.registry.url=http://me:geheim@schemas:8081",
    ],
)
def test_a_login_of_a_connect_worker_is_not_shown_either(text):
    (setting,) = settings(text)
    assert "geheim" not in setting.shown


def test_a_secret_is_not_shown():
    assert [each.shown for each in settings("controller:etcd.password=geheim", "broker:x=1")] == [
        "controller:etcd.password=(hidden)",
        "broker:x=1",
    ]


def test_what_services_would_refuse_is_told_in_plain_words_with_what_may_be_meant():
    found = problems_by_role(
        {
            "broker": ["node.id=1\nlog.retention.hour=1\nnum.partitions=many\n"],
            "controller": ["# a comment\nnode.id=1\n", "node.id=2\n"],
        }
    )
    text = "\n".join(found["broker"])
    assert "log.retention.hour: unknown setting; did you mean log.retention.hours?" in text
    assert "num.partitions: write a whole number (got 'many')" in text
    assert "Value error" not in text
    assert "Input should be" not in text


def test_a_setting_that_is_wrong_for_topics_is_named_alone():
    found = problems_by_role({"broker": ["node.id=1\nlog.segment.bytes=abc\n"]})
    assert [line for line in found["broker"] if "log.segment.bytes" in line] == [
        "Invalid value abc for configuration log.segment.bytes: Not a number of type INT"
    ]
