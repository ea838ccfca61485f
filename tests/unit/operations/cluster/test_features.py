"""What brokers have in common of features, and what is typed about their levels."""

import pytest

from ottla_operations.cluster.features import FeatureView, check_known, common_features, newest_levels, parse_levels
from ottla_operations.errors import OperationError, UsageProblem


def test_a_feature_has_the_levels_that_every_broker_has() -> None:
    views = common_features({"a": 2}, {1: {"a": (1, 3)}, 2: {"a": (2, 5), "b": (1, 1)}})
    assert views == [FeatureView("a", 2, 2, 3), FeatureView("b", 0, 1, 0)]
    assert newest_levels(views) == {"a": 3}


@pytest.mark.parametrize("word", ["a", "a=", "=2", "a=-1", "a=two"])
def test_a_word_that_is_no_level_is_refused(word: str) -> None:
    with pytest.raises(UsageProblem, match="is no level of a feature"):
        parse_levels([word])


def test_a_feature_is_given_one_level() -> None:
    assert parse_levels(["a=1", "b=2"]) == {"a": 1, "b": 2}
    with pytest.raises(UsageProblem, match="two levels"):
        parse_levels(["a=1", "a=2"])


def test_a_feature_that_the_cluster_lacks_is_named() -> None:
    with pytest.raises(OperationError, match=r"no feature x; it has ottla\.version"):
        check_known({"x": 1}, [FeatureView("ottla.version", 1, 1, 2)])
