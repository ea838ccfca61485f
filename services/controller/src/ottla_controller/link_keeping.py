"""What the keeper of a link may have changed: topics are linked, extended, given their source's settings. Pure.

The keeper says what it has found at the source. Everything by which it chose to say so is looked at again here, in
the step that changes it: whether it is the keeper at all, whether the link is paused and still follows the topic,
whether the topic here follows that very topic. So two keepers, or one that was paused for an hour, do no harm.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from ottla_controller.cluster_links import UnknownLink
from ottla_controller.effective_configs import check_topic_configs
from ottla_controller.linked_topics import LinkedTopicPlan, plan_linked_topics, plan_more_partitions
from ottla_controller.topics import TopicDefaults
from ottla_core.cluster.controller_rpc.link_api import LinkedTopicResult, MorePartitions, NewLinkedTopic
from ottla_core.cluster.state.link_properties import follows_topic, keeper_of, properties_of
from ottla_core.cluster.state.linked_topic_settings import with_followed
from ottla_core.cluster.state.model import ClusterState, Link, Topic, TopicOrigin
from ottla_core.errors import InvalidRequest, KafkaError, PolicyViolation, StaleBrokerEpoch


def check_registered(broker_id: int, broker_epoch: int, state: ClusterState) -> None:
    """See that a broker is registered under an epoch.

    Raises:
        StaleBrokerEpoch: it is not.
    """
    broker = state.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"broker {broker_id} is not registered under epoch {broker_epoch}")


def plan_keeping(
    link_id: UUID, broker_id: int, found: Sequence[NewLinkedTopic], state: ClusterState, defaults: TopicDefaults
) -> list[LinkedTopicPlan]:
    """Return one plan per topic that the source has, in order; one that is as there already needs nothing.

    Args:
        link_id: the link; a later one of the same name is another one.
        broker_id: who has looked at the source.
        found: topics of the source. Of the settings that are followed, `configs` has all that they have.
        state: the cluster as it is.
        defaults: of topics.

    Raises:
        UnknownLink: there is no such link.
        InvalidRequest: the broker does not keep it.
        PolicyViolation: it is paused, or links no topics by itself, or there are too many partitions.
    """
    link = state.link_of(link_id)
    if link is None:
        raise UnknownLink(f"there is no link {link_id}")
    if keeper_of(link.id, state.brokers) != broker_id:
        raise InvalidRequest(f"broker {broker_id} does not keep link '{link.name}'")
    if link.paused:
        raise PolicyViolation(f"link '{link.name}' is paused")
    if not properties_of(link).refresh_topics_enabled:
        raise PolicyViolation(f"link '{link.name}' does not refresh topics")
    plans: dict[str, LinkedTopicPlan] = {}
    absent: list[NewLinkedTopic] = []
    for new in found:
        topic = state.topics.get(new.name)
        if topic is not None:
            plans[new.name] = _in_step(new, topic, link, state)
        elif (reason := _reason_against(new.name, link)) is not None:
            plans[new.name] = _refused(new.name, PolicyViolation(reason))
        else:
            absent.append(new)
    plans |= {plan.result.topic: plan for plan in plan_linked_topics(link.name, absent, state, defaults)}
    return [plans[new.name] for new in found]


def _reason_against(name: str, link: Link) -> str | None:
    """Return why a topic that is not here is not linked."""
    if not follows_topic(link, name):
        return f"link '{link.name}' does not follow '{name}'"
    if name in link.promoted_topics:
        return f"'{name}' was promoted"
    return None


def _in_step(new: NewLinkedTopic, topic: Topic, link: Link, state: ClusterState) -> LinkedTopicPlan:
    """Return what gives a linked topic the partitions and settings that its source has."""
    origin = TopicOrigin(link_id=link.id, source_topic=new.source_topic, source_topic_id=new.source_topic_id)
    if topic.origin != origin or any(partition.link != link.id for partition in topic.partitions):
        return _refused(new.name, PolicyViolation(f"'{new.name}' is here and does not follow link '{link.name}'"))
    plan = LinkedTopicPlan(LinkedTopicResult(topic=new.name))
    if len(new.source_leader_epochs) > len(topic.partitions):
        more = MorePartitions(topic=new.name, source_leader_epochs=new.source_leader_epochs)
        (plan,) = plan_more_partitions([more], state)
    wanted = {name: value for name, value in new.configs.items() if value is not None}
    configs = with_followed(topic.configs, wanted)
    if not properties_of(link).sync_topic_configs_enabled or configs == dict(topic.configs):
        return plan
    try:
        check_topic_configs(configs, state.broker_configs)
    except KafkaError as error:  # it grows nevertheless
        return replace(plan, result=_refused(new.name, error).result)
    return replace(plan, topic=replace(plan.topic or topic, configs=configs))


def _refused(name: str, error: KafkaError) -> LinkedTopicPlan:
    return LinkedTopicPlan(LinkedTopicResult(topic=name, error_code=error.code, error_message=error.message))
