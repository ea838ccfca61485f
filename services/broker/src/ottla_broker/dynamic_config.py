"""A broker's settings with what was changed at run time put over its file's.

The broker's own dynamic settings come before those of all brokers, and those before the file. What does not go
together with the file, which the controller cannot know of, must not stop the broker: the settings then stay as
they were.
"""

from collections.abc import Callable, Mapping

import structlog
from pydantic import ValidationError

from ottla_broker.config import BrokerConfig
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.dynamic_broker_config import AT_START, is_applied

BrokerConfigs = Mapping[int | None, Mapping[str, str]]

logger = structlog.get_logger("broker")


def with_dynamic(config: BrokerConfig, configs: BrokerConfigs, counts: Callable[[str], bool]) -> BrokerConfig:
    """Return the settings with those that count among what was changed at run time.

    Args:
        config: what the broker was started with.
        configs: `ClusterState.broker_configs`.
        counts: says by its name whether a setting does.

    Raises:
        ValidationError: they do not go together with the others.
    """
    dynamic = {**configs.get(None, {}), **configs.get(config.node_id, {})}
    changed = {name: text for name, text in dynamic.items() if counts(name)}
    if not changed:
        return config
    given = config.model_dump(by_alias=True, exclude_unset=True)
    gathered = {
        **config.topic_settings,
        **config.config_providers,
        **config.listener_values,
        **config.client_plugin_values,
    }
    return type(config).model_validate({**given, **gathered, **changed})


def as_started(config: BrokerConfig, configs: BrokerConfigs) -> BrokerConfig:
    """Return the settings that a broker goes by which is being started."""
    try:
        return with_dynamic(config, configs, AT_START.__contains__)
    except ValidationError as error:
        _report(error)
        return config


def keep_applied(config: BrokerConfig, feed: ClusterStateFeed, apply: Callable[[BrokerConfig], None]) -> None:
    """Have `apply` called now, and whenever settings that take effect at run time may have changed."""

    def take(configs: BrokerConfigs) -> None:
        try:
            apply(with_dynamic(config, configs, is_applied))
        except ValidationError as error:
            _report(error)

    def look(former: ClusterState, new: ClusterState) -> None:
        if former.broker_configs is not new.broker_configs:
            take(new.broker_configs)

    take(feed.state.broker_configs)
    feed.subscribe(look)


def _report(error: ValidationError) -> None:
    logger.error("dynamic settings contradict this broker's file and are left aside", problem=str(error))
