"""Asking a cluster for the settings of topics (DescribeConfigs)."""

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import ANSWER_TIMEOUT_S, AsyncCluster
from ottla_core.described_settings import TopicSetting, described
from ottla_core.wire.conversion import message_of

TOPIC_RESOURCE: Final = 2
TOPICS_PER_REQUEST: Final = 200


async def topic_settings(
    cluster: AsyncCluster, topics: Sequence[str], *, timeout_s: float = ANSWER_TIMEOUT_S
) -> dict[str, Mapping[str, TopicSetting]]:
    """Return the settings of topics; those that are gone, or may not be seen, are missing.

    Args:
        cluster: whom to ask.
        topics: their names.
        timeout_s: for each request.

    Raises:
        Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
    """
    found: dict[str, Mapping[str, TopicSetting]] = {}
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        resources = tuple(
            message_of(
                DescribeConfigsResource, resource_type=TOPIC_RESOURCE, resource_name=each, configuration_keys=None
            )
            for each in topics[start : start + TOPICS_PER_REQUEST]
        )
        request = message_of(DescribeConfigsRequest, resources=resources)
        response = await cluster.ask_any(request, timeout_s=timeout_s)
        for result in response.results:
            if result.error_code is ErrorCode.none:
                found[result.resource_name] = described(result.configs)
    return found
