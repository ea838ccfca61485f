"""The form of a connector: what it shows of settings, and what it makes of what was typed."""

from typing import Any

import pytest

from ottla_console.views.connector_form import (
    BadConnector,
    check_retyped,
    config_mark,
    field_errors,
    field_id,
    form_groups,
    found_problems,
    json_text,
    more_settings,
    typed_config,
    unshown_keys,
    with_kept_secrets,
    with_untouched_fields,
)
from ottla_sdk.runtime.redaction import HIDDEN


def info(key: str, kind: str = "STRING", group: str = "Data", order: int = 1, **more: Any) -> dict[str, Any]:
    definition = {
        "name": key, "type": kind, "required": False, "default_value": None, "importance": "LOW",
        "documentation": f"About {key}.", "group": group, "order_in_group": order, "width": "SHORT",
        "display_name": key, **more,
    }  # fmt: skip
    value = {"name": key, "recommended_values": ["a"], "errors": more.pop("errors", []), "visible": True}
    return {"definition": definition, "value": value}


INFOS = {
    "groups": ["Common", "Data", "Rare"],
    "configs": [
        info("connector.class", group="Common"),
        info("name", group="Common"),
        info("tasks.max", "INT", group="Common", default_value="1", importance="HIGH"),
        info("second", order=2, errors=["must be set"], required=True),
        info("first", "BOOLEAN", order=1),
        info("house.rule", "PASSWORD", order=3),
        info("connection.url", order=4),
        info("rare", group="Rare"),
        {"definition": None, "value": {"name": "odd", "value": "1", "errors": ["no such setting"]}},
    ],
}


def test_settings_stand_in_their_groups_in_the_plugins_order() -> None:
    common, data, rare = form_groups(INFOS, {"first": "true"}, ())
    assert [each.key for each in common.fields] == ["tasks.max"]
    assert [each.key for each in data.fields] == ["first", "second", "house.rule", "connection.url"]
    assert [group.is_open for group in (common, data, rare)] == [True, True, False]
    assert (data.fields[0].kind, data.fields[0].value) == ("boolean", "true")
    assert (data.fields[1].errors, data.fields[1].is_required) == (("must be set",), True)
    assert (common.fields[0].default, common.fields[0].recommended) == ("1", ("a",))


def test_no_field_has_a_secret() -> None:
    stored = {"house.rule": "s3cret", "connection.url": "http://me:s3cret@x", "api.token": "s3cret"}
    groups = form_groups(INFOS, stored, stored.keys())
    secret, url = groups[1].fields[2:]
    assert (secret.kind, secret.value, secret.is_kept) == ("secret", "", True)
    assert url.value == HIDDEN
    assert "s3cret" not in f"{groups}{json_text(stored, stored.keys())}{more_settings(INFOS, stored, stored.keys())}"
    reference = form_groups(INFOS, {"house.rule": "${env:RULE}"}, ())[1].fields[2]
    assert (reference.kind, reference.value) == ("text", "${env:RULE}")


def test_secrets_that_were_typed_are_known_by_the_plugins_word_or_their_names() -> None:
    typed = {"house.rule": "a", "my.password": "b", "topic": "c", "other.password": "${env:X}"}
    assert unshown_keys(typed, INFOS) == {"house.rule", "my.password"}
    assert unshown_keys(typed, None) == {"my.password"}


def test_what_has_no_field_is_a_line() -> None:
    config = {"first": "x", "odd": "two\nlines", "name": "c"}
    assert more_settings(INFOS, config, ()) == "odd=two\\nlines"
    assert typed_config({"more": "odd=two\\nlines\r\n\r\n a = b=c "}) == {"odd": "two\nlines", "a": "b=c"}


def test_fields_without_a_value_are_not_set() -> None:
    form = {"s.topic": "flights", "s.empty": "", "s.blank": " ", "token": "t", "s.sql": "a\r\nb"}
    assert typed_config(form) == {"topic": "flights", "sql": "a\nb"}


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"more": "rubbish"}, "line 1: write KEY=VALUE"),
        ({"more": "a=b\n=c"}, "line 2"),
        ({"json": "{"}, "no JSON"),
        ({"json": "[1]"}, "an object of settings"),
        ({"json": '{"a": {"b": 1}}'}, "a: its value is a text"),
        ({"json": '{"a": null}'}, "a: its value is a text"),
        ({"json": "[" * 100_000}, "no JSON"),
    ],
)
def test_what_cannot_be_used_is_named(form: dict[str, str], told: str) -> None:
    with pytest.raises(BadConnector, match=told):
        typed_config(form)


def test_json_may_be_a_connector_or_its_settings() -> None:
    settings = {"connector.class": "x", "tasks.max": "2", "flag": "true"}
    assert typed_config({"json": '{"connector.class": "x", "tasks.max": 2, "flag": true}'}) == settings
    whole = '{"name": "c", "config": {"connector.class": "x", "tasks.max": "2", "flag": "true"}}'
    assert typed_config({"json": whole}) == {**settings, "name": "c"}


def test_a_secret_that_is_not_typed_anew_stays() -> None:
    stored = {"house.rule": "s3cret", "other": "x"}
    assert with_kept_secrets({"house.rule": HIDDEN}, stored, {"house.rule"}) == {"house.rule": "s3cret"}
    with pytest.raises(BadConnector, match="other: no secret is stored"):
        with_kept_secrets({"other": HIDDEN}, stored, {"house.rule"})
    assert with_untouched_fields({}, {"s.house.rule": ""}, stored, {"house.rule"}) == {"house.rule": "s3cret"}
    assert with_untouched_fields({}, {}, stored, {"house.rule"}) == {}  # in JSON it was left out


def test_a_typed_secret_that_was_lost_is_typed_again() -> None:
    with pytest.raises(BadConnector, match=r"house.rule: type it again"):
        check_retyped({"retype": "house.rule", "s.house.rule": ""}, {})
    with pytest.raises(BadConnector, match=r"house.rule: type it again"):
        check_retyped({"retype": "house.rule", "json": ""}, {"house.rule": HIDDEN})
    check_retyped({"retype": "house.rule", "s.house.rule": "new"}, {"house.rule": "new"})
    check_retyped({"retype": "house.rule", "json": ""}, {})


def test_problems_have_their_settings_and_ids_that_pages_can_hold() -> None:
    assert found_problems(INFOS) == [("second", "must be set"), ("odd", "no such setting")]
    shown = {"s.name": "", "s.second": ""}
    assert field_errors(INFOS, shown) == [(field_id("second"), ("must be set",))]
    assert field_id('"><script>').removeprefix("f-").isalnum()


def test_the_mark_tells_other_settings() -> None:
    assert config_mark({"a": "1", "b": "2"}) == config_mark({"b": "2", "a": "1"}) != config_mark({"a": "1"})
