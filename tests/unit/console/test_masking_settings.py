"""Rules for masked fields in the console's settings."""

import pytest

from ottla_console.config.console_config import ConsoleConfig
from ottla_console.config.masking_settings import masking_rules
from ottla_core.errors import ConfigurationError

CARDS = {"masking.rule.cards.fields": "$.card, key", "masking.rule.cards.how": "last:4"}


def test_a_rule_is_of_all_topics_clusters_and_users_unless_it_says_otherwise() -> None:
    (found,) = masking_rules(("cards",), CARDS, ("prod",))
    assert found.concerns("prod", "anything", ["ann"])
    more = {
        "masking.rule.cards.topics": "a, b*",
        "masking.rule.cards.clusters": "prod",
        "masking.rule.cards.exempt": "ann,role:admin",
    }
    (narrow,) = masking_rules(("cards",), {**CARDS, **more}, ("prod", "test"))
    assert (narrow.topics, narrow.clusters, narrow.exempt) == (("a", "b*"), ("prod",), {"ann", "role:admin"})
    assert len(narrow.fields) == 2


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({}, "masking.rule.cards.fields: must be set"),
        ({"masking.rule.cards.fields": "key"}, "masking.rule.cards.how: "),
        ({**CARDS, "masking.rule.cards.fields": "$."}, r"masking.rule.cards.fields: \$\.: a field is"),
        ({**CARDS, "masking.rule.cards.topic": "a"}, "masking.rule.cards.topic: unknown setting"),
        ({**CARDS, "masking.rule.cards.clusters": "prd"}, "there is no cluster prd"),
        ({**CARDS, "masking.rule.names.fields": "key"}, "masking.rule.names.fields: no such rule"),
    ],
)
def test_what_is_wrong_is_named(written: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        masking_rules(("cards",), written, ("prod",))


def test_the_console_does_not_start_with_a_rule_that_it_cannot_read() -> None:
    environment = {"OTTLA_CLUSTERS": "prod", "OTTLA_CLUSTER_PROD_BOOTSTRAP_SERVERS": "k:9092"}
    with pytest.raises(ConfigurationError, match=r"masking.rule.cards.fields: must be set"):
        ConsoleConfig.load(["--set", "masking.rules=cards"], environment)
    given = {**environment, "OTTLA_MASKING_RULES": "cards", "OTTLA_MASKING_RULE_CARDS_FIELDS": "key"}
    config = ConsoleConfig.load(["--set", "masking.rule.cards.how=hide"], given)
    assert config.masking({}).of("prod", "t", [])


def test_the_key_of_hashes_may_be_a_reference_and_is_shown_nowhere() -> None:
    environment = {"OTTLA_CLUSTERS": "prod", "OTTLA_CLUSTER_PROD_BOOTSTRAP_SERVERS": "k:9092"}
    config = ConsoleConfig.load(["--set", "masking.hash.secret=${env:MASKING_KEY}"], environment)
    config.masking({"MASKING_KEY": "a long and secret word"})
    with pytest.raises(ConfigurationError, match="MASKING_KEY"):
        config.masking({})
    plain = ConsoleConfig.load(["--set", "masking.hash.secret=a long and secret word"], environment)
    assert "secret word" not in repr(plain)
