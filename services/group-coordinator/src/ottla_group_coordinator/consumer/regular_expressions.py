"""Subscriptions by regular expression: which topics they match, and when that is looked up again.

The syntax is RE2's, as in Kafka, so matching takes time linear in the topic's name whatever the expression. An
expression must match the whole name. Internal topics match like any other.

A new expression is resolved at once, in the turn of the heartbeat that brings it. All expressions of a group are
resolved again when topics have come or gone, though not more often than `REFRESH_INTERVAL_MS_MIN`, and when the last
time was `consumer_regex_refresh_ms` ago.

Source: KIP-848; `TopicRegexResolver` in Kafka.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import re2

from ottla_group_coordinator.classic.snapshot import fits
from ottla_group_coordinator.consumer.group import ConsumerGroup, ResolvedExpression
from ottla_group_coordinator.errors import InvalidRegularExpression
from ottla_group_coordinator.records import ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.shard_state import ShardState

if TYPE_CHECKING:
    from typing import Protocol

    class Expression(Protocol):
        """A compiled regular expression."""

        def fullmatch(self, text: str) -> object:
            """Return something true if the whole text matches."""


REFRESH_INTERVAL_MS_MIN = 10_000
"""However often topics come and go, a group's expressions are resolved no more often than this."""

EXPRESSION_BYTES_MAX = 1024 * 1024
"""Memory that a compiled expression may take."""

EXPRESSIONS_KEPT_MAX = 128
"""Compiled expressions that are kept."""


@lru_cache(maxsize=EXPRESSIONS_KEPT_MAX)
def compiled(pattern: str) -> "Expression":
    """Return a compiled expression.

    Raises:
        InvalidRegularExpression: the pattern is not one, or takes too much memory.
    """
    options = re2.Options()
    options.max_mem = EXPRESSION_BYTES_MAX
    options.log_errors = False
    try:
        return cast("Expression", re2.compile(pattern, options))
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise InvalidRegularExpression(
            f"the subscribed regular expression {pattern!r} is not valid in RE2's syntax: {reason}"
        ) from None


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that an expression matches as a whole."""
    expression = compiled(pattern)
    return frozenset(name for name in names if expression.fullmatch(name))


def check_expression(shard: ShardState, group_id: str, pattern: str) -> None:
    """See that an expression is valid, and that what it matches can be stored.

    Raises:
        InvalidRegularExpression: it is not, or it cannot.
    """
    topics = matching(pattern, shard.cluster_state.topics)
    record = CoordinatorRecord(*_resolution(shard, group_id, pattern, topics, 0))
    if not fits(record, shard.settings.batch_bytes_max):
        raise InvalidRegularExpression(f"the regular expression {pattern!r} matches more topics than can be stored")


def update_expressions(shard: ShardState, turn: Turn, group: ConsumerGroup) -> bool:
    """Resolve what is new or due, and forget what nobody subscribes to; return whether other topics match now.

    An expression that was stored once and is not valid any more, or never was to us, matches nothing.
    """
    has_changed = False
    for pattern in [pattern for pattern in group.expressions if pattern not in group.subscribed_expressions]:
        key = ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=pattern)
        shard.write(turn, key, None)
    for pattern in list(group.subscribed_expressions):
        former = group.expressions.get(pattern)
        if former is not None and not _is_due(shard, former, turn.timestamp_ms):
            continue
        try:
            topics = matching(pattern, shard.cluster_state.topics)
        except InvalidRegularExpression:
            topics = frozenset()
        key, value = _resolution(shard, group.group_id, pattern, topics, turn.timestamp_ms)
        if not fits(CoordinatorRecord(key, value), shard.settings.batch_bytes_max):
            # It was checked when it came, and has come to match too much since: it keeps what it has matched.
            value = replace(value, topics=tuple(sorted(former.topics)) if former is not None else ())
        shard.write(turn, key, value)
        has_changed = has_changed or former is None or former.topics != group.expressions[pattern].topics
    return has_changed


def _is_due(shard: ShardState, resolved: ResolvedExpression, timestamp_ms: int) -> bool:
    age_ms = timestamp_ms - resolved.timestamp_ms
    if resolved.version < shard.topic_names_revision and age_ms > REFRESH_INTERVAL_MS_MIN:
        return True
    return age_ms > shard.settings.consumer_regex_refresh_ms


def _resolution(
    shard: ShardState, group_id: str, pattern: str, topics: frozenset[str], timestamp_ms: int
) -> tuple[ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue]:
    return (
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(topics)), version=shard.cluster_state.revision, timestamp=timestamp_ms
        ),
    )
