"""Asking a cluster about topics, and having it change them: one method for each request."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from ottla_core.acls import AclBinding, ResourceKind
from ottla_core.client.acl_messages import bindings_of, create_request, describe_request
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import ClusterMetadata
from ottla_core.client.topic_settings import TOPIC_RESOURCE, topic_settings
from ottla_core.described_settings import TopicSetting
from ottla_core.errors import OttlaError
from ottla_core.wire.conversion import message_of

SET: Final = 0
DELETE: Final = 1
CREATION_RETRIES_MAX: Final = 3
BINDINGS_AT_ONCE: Final = 1000
"""Of access control lists, in one request."""


class TopicChangeRefused(OttlaError):
    """A cluster does not carry a change out; the message names the topic and the reason."""


class TopicAdmin:
    """Topics of one cluster.

    Args:
        cluster: the cluster.
        alias: its name in messages.
        timeout_s: for each request.
    """

    def __init__(self, cluster: AsyncCluster, alias: str, timeout_s: float) -> None:
        self._cluster = cluster
        self._alias = alias
        self._timeout_s = timeout_s

    async def metadata(self, topics: Collection[str] | None = None) -> ClusterMetadata:
        """Return what the cluster says of topics, all by default; errors as with `AsyncCluster`."""
        return await self._cluster.metadata(topics, timeout_s=self._timeout_s)

    async def exists(self, topic: str) -> bool:
        """Return whether there is such a topic; where a broker cannot tell, there is."""
        found = (await self.metadata((topic,))).topics.get(topic)
        return found is None or found.error is not ErrorCode.unknown_topic_or_partition

    async def settings(self, topics: Sequence[str]) -> dict[str, Mapping[str, TopicSetting]]:
        """Return the settings of topics; those that are gone, or may not be seen, are missing."""
        return await topic_settings(self._cluster, topics, timeout_s=self._timeout_s)

    async def create(
        self, topic: str, *, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> bool:
        """Make a topic; returns whether it was not there.

        Raises:
            TopicChangeRefused: the cluster does not; `INVALID_CONFIG` in `settings_are_refused` is told apart.
        """
        request = message_of(
            CreateTopicsRequest,
            topics=(
                message_of(
                    CreatableTopic,
                    name=topic,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    configs=tuple(
                        message_of(CreatableTopicConfig, name=name, value=value)
                        for name, value in sorted(settings.items())
                    ),
                ),
            ),
            timeout=timedelta(seconds=self._timeout_s),
        )
        code, message = await self._changed(request, "topics")
        if code is ErrorCode.topic_already_exists:
            return False
        if code is ErrorCode.invalid_config:
            raise SettingsRefused(f"{self._alias} refuses settings of {topic}: {message or code.name}")
        self._check(code, message, f"does not make the topic {topic}")
        return True

    async def extend(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions; it may have them already.

        Raises:
            TopicChangeRefused: the cluster does not.
        """
        request = message_of(
            CreatePartitionsRequest,
            topics=(message_of(CreatePartitionsTopic, name=topic, count=partitions, assignments=None),),
            timeout=timedelta(seconds=self._timeout_s),
        )
        code, message = await self._changed(request, "results")
        if code is ErrorCode.invalid_partitions:
            found = (await self.metadata((topic,))).topics.get(topic)
            if found is not None and len(found.partitions) >= partitions:
                return
        self._check(code, message, f"does not give the topic {topic} {partitions} partitions")

    async def alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None has it lose one.

        Raises:
            TopicChangeRefused: the cluster does not.
        """
        configs = tuple(
            message_of(AlterableConfig, name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in sorted(changes.items())
        )
        resource = message_of(
            AlterConfigsResource, resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs
        )
        request = message_of(IncrementalAlterConfigsRequest, resources=(resource,))
        code, message = await self._changed(request, "responses")
        self._check(code, message, f"does not change {', '.join(sorted(changes))} of the topic {topic}")

    async def delete(self, topic: str) -> None:
        """Delete a topic; it may be gone already.

        Raises:
            TopicChangeRefused: the cluster does not.
        """
        request = message_of(
            DeleteTopicsRequest,
            topics=(message_of(DeleteTopicState, name=topic, topic_id=None),),
            timeout=timedelta(seconds=self._timeout_s),
        )
        code, message = await self._changed(request, "responses")
        if code is not ErrorCode.unknown_topic_or_partition:
            self._check(code, message, f"does not delete the topic {topic}")

    async def topic_acls(self) -> list[AclBinding] | None:
        """Return the access control lists of topics; None where the cluster has none, as it has no authorizer.

        Raises:
            TopicChangeRefused: they may not be seen.
        """
        request = describe_request(ResourceKind.TOPIC)
        response: Any = await self._cluster.ask_controller(request, timeout_s=self._timeout_s)
        if response.error_code is ErrorCode.security_disabled:
            return None
        self._check(response.error_code, response.error_message or "", "does not show access control lists")
        return bindings_of(response)

    async def create_acls(self, bindings: Sequence[AclBinding]) -> None:
        """Create bindings, at most `BINDINGS_AT_ONCE`; those that are there already stay.

        Raises:
            TopicChangeRefused: the cluster does not create at least one.
        """
        request = create_request(bindings)
        response: Any = await self._cluster.ask_controller(request, timeout_s=self._timeout_s)
        for binding, result in zip(bindings, response.results, strict=True):
            what = f"does not create access control lists of the topic {binding.name}"
            self._check(result.error_code, result.error_message or "", what)

    async def _changed(self, request: Any, field: str) -> tuple[ErrorCode, str]:
        """Have the controller carry out a change of one topic; returns what it says."""
        for _ in range(CREATION_RETRIES_MAX):
            response = await self._cluster.ask_controller(request, timeout_s=self._timeout_s)
            (result,) = getattr(response, field)
            if result.error_code is not ErrorCode.not_controller:
                break
            self._cluster.forget_controller()
        return result.error_code, result.error_message or ""

    def _check(self, code: ErrorCode, message: str, what: str) -> None:
        if code is not ErrorCode.none:
            raise TopicChangeRefused(f"{self._alias} {what}: {message or code.name.upper()}")


class SettingsRefused(TopicChangeRefused):
    """A cluster does not know a setting, or does not take its value."""
