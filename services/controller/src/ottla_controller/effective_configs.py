"""Whether settings go together once everything that provides a topic's settings is put over each other. Pure.

A topic's effective settings are its own over the broker's dynamic ones over the cluster-wide dynamic ones. Each may
be fine by itself and still contradict another (`min.compaction.lag.ms` above `max.compaction.lag.ms`), so a change
of any is checked against the rest. What a broker reads from its own file is not known here; a broker puts up with
contradictions that come from there.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ottla_core.dynamic_broker_config import check_process_configs
from ottla_core.errors import InvalidConfig
from ottla_core.throttle_config import THROTTLE_DEFINITIONS
from ottla_core.topic_config import TopicConfig, parse_topic_configs, topic_defaults

TOPICS_NAMED_MAX = 10

Configs = Mapping[str, str]
BrokerConfigs = Mapping[int | None, Configs]
"""Dynamic settings by broker id; None stands for those of all brokers."""


def check_topic_configs(configs: Configs, broker_configs: BrokerConfigs) -> None:
    """See that a topic's own settings are readable and contradict nothing that is set for brokers.

    Raises:
        InvalidConfig: they do not; the message says which, and over whose settings.
    """
    parse_topic_configs(configs)
    for whose, defaults in _defaults(broker_configs):
        try:
            parse_topic_configs(configs, defaults)
        except InvalidConfig as error:
            raise InvalidConfig(f"{error.message}, with the dynamic settings of {whose}") from None


def check_broker_configs(
    before: BrokerConfigs, after: BrokerConfigs, changed: int | None, topics: Mapping[str, Configs]
) -> None:
    """See that a change of brokers' settings leaves them readable and contradicts no topic's own.

    Args:
        before: all brokers' dynamic settings as they are.
        after: the same with the change.
        changed: the broker whose settings change, or None for those of all brokers.
        topics: the topics' own settings by name.

    Raises:
        InvalidConfig: it does not; the message names the settings or the topics. Topics that are in contradiction
            already are no reason to refuse.
    """
    _check_throttles(after.get(changed, {}))
    check_process_configs(after.get(changed, {}))
    topic_defaults(after.get(changed, {}))
    for whose, settings in _layers(after):
        try:
            topic_defaults(settings)
        except InvalidConfig as error:
            raise InvalidConfig(f"{error.message}, with the dynamic settings of {whose}") from None
    defaults_before, defaults_after = _defaults(before), _defaults(after)
    problems = {
        name: problem
        for name, configs in topics.items()
        if configs
        and (problem := _contradiction(configs, defaults_after))
        and not _contradiction(configs, defaults_before)
    }
    if problems:
        named = ", ".join(f"'{name}'" for name in islice(problems, TOPICS_NAMED_MAX))
        more = f" and {len(problems) - TOPICS_NAMED_MAX} more" if len(problems) > TOPICS_NAMED_MAX else ""
        first = next(iter(problems.values()))
        raise InvalidConfig(f"The change contradicts the settings of topics {named}{more}: {first}")


def _check_throttles(settings: Configs) -> None:
    for name, text in settings.items():
        if name in THROTTLE_DEFINITIONS:
            THROTTLE_DEFINITIONS[name].parse(text)


def _contradiction(configs: Configs, layers: Sequence[tuple[str, TopicConfig]]) -> str:
    """Return what does not go together, or nothing."""
    try:
        for _, defaults in layers:
            parse_topic_configs(configs, defaults)
    except InvalidConfig as error:
        return error.message
    return ""


def _defaults(broker_configs: BrokerConfigs) -> list[tuple[str, TopicConfig]]:
    """Return what topics get from brokers' settings; brokers whose own settings contradict each other say nothing."""
    found = []
    for whose, settings in _layers(broker_configs):
        with contextlib.suppress(InvalidConfig):
            found.append((whose, topic_defaults(settings)))
    return found


def _layers(broker_configs: BrokerConfigs) -> Iterator[tuple[str, Configs]]:
    """Yield what provides topics' defaults: once for brokers without settings of their own, and per broker with."""
    cluster_wide = broker_configs.get(None, {})
    yield "all brokers", cluster_wide
    for broker_id, own in broker_configs.items():
        if broker_id is not None and own:
            yield f"broker {broker_id}", {**cluster_wide, **own}
