"""The settings of a topic as DescribeConfigs tells them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

TOPIC_CONFIG: Final = 1
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """A setting of a topic as DescribeConfigs tells it.

    Attributes:
        value: None where it is not told.
        source: where it comes from, such as `TOPIC_CONFIG`.
        is_fixed: whether it cannot be set, or is a secret.
    """

    value: str | None
    source: int
    is_fixed: bool = False


def described(results: Iterable[Any]) -> dict[str, TopicSetting]:
    """Return the settings of one topic in a response of the newest class."""
    return {
        each.name: TopicSetting(
            value=each.value,
            source=int(each.config_source),
            is_fixed=bool(each.read_only or each.is_sensitive),
        )
        for each in results
    }
