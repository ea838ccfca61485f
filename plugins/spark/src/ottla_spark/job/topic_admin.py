"""Looks whether the topics of a plan are there before Spark starts, which would say it later and less well."""

import time
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla_spark.datasource.client_options import Settings, librdkafka_settings
from ottla_spark.datasource.errors import MissingTopic, new_client
from ottla_spark.datasource.refusals import Connections, failure
from ottla_spark.job.clients import TopicClients, topic_clients
from ottla_spark.job.plan import JobPlan, Table, TopicRead
from ottla_spark.job.topic_names import missing_topics

LIST_TOPICS_TIMEOUT_S = 15.0
LOOK_AGAIN_S = 1.0
"""A broker that has just started, or is not the one that made a topic, may not know it yet."""


def check_topics(plan: JobPlan, admin: Mapping[str, str]) -> None:
    """Check that all topics that a plan reads are there.

    Args:
        plan: it.
        admin: the worker's settings for an admin client.

    Raises:
        MissingTopic: some are not.
        ClusterUnreachable: no broker answers.
        ReadRefused: none lets the worker in.
    """
    if plan.topic_source != "ottla":
        return  # The settings may be Java's alone; Spark's own source says it.
    clients = topic_clients(plan, admin, {})
    sentences = []
    for settings, tables in _by_cluster(plan, clients):
        found = missing_topics(tables, _topics(settings))
        if found:
            time.sleep(LOOK_AGAIN_S)
            found = missing_topics(tables, _topics(settings))
        sentences += found
    if sentences:
        raise MissingTopic(f"{'; '.join(sentences)}. Create what is missing, or correct the name")


def _by_cluster(plan: JobPlan, clients: TopicClients) -> list[tuple[Settings, list[Table]]]:
    grouped: dict[str, tuple[Settings, list[Table]]] = {}
    for table in plan.tables:
        if isinstance(table.reading, TopicRead):
            settings = librdkafka_settings(clients.read_options(table.reading), kind="admin")
            grouped.setdefault(repr(sorted(settings.items())), (settings, []))[1].append(table)
    return list(grouped.values())


def _topics(settings: Settings) -> list[str]:
    connections = Connections()
    client = new_client(AdminClient, connections.told_by(settings))
    try:
        return list(client.list_topics(timeout=LIST_TOPICS_TIMEOUT_S).topics)
    except KafkaException as error:
        client.poll(0)  # has it tell of its connections
        message = f"the topics at {settings['bootstrap.servers']} cannot be listed"
        raise failure(error.args[0], message, connections) from None
