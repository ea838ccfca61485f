"""Comparing the topics of two clusters from the beginning to the end: which topics, how far it is, what was found."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla_core.errors import OttlaError
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import CLIENT_ID, client_security, split_address
from ottla_operations.mirror.cluster_reader import ClusterReader
from ottla_operations.mirror.differences import PartitionOutcome
from ottla_operations.mirror.topic_pairs import BadPattern, Naming, chosen_topics
from ottla_operations.mirror.verification import Report, Rules, Verification


def reader_of(bootstrap: str, config: Mapping[str, Any], name: str) -> ClusterReader:
    """Return what reads a cluster.

    Args:
        bootstrap: addresses of its brokers.
        config: settings of clients, under librdkafka's names.
        name: of the cluster, for messages.

    Raises:
        OperationError: its settings cannot be used.
    """
    try:
        security = client_security(config)
    except OperationError as error:
        raise OperationError(f"the {name} cluster: {error}") from None
    addresses = [split_address(each.strip()) for each in bootstrap.split(",")]
    return ClusterReader(addresses, security=security, client_id=str(config.get("client.id", CLIENT_ID)), name=name)


async def compared(
    source: ClusterReader,
    target: ClusterReader,
    patterns: Sequence[str],
    naming: Naming,
    rules: Rules,
    *,
    begun: Callable[[int], None],
    advanced: Report,
) -> list[PartitionOutcome]:
    """Return what a comparison finds, by topic and partition.

    Args:
        source: the cluster that is compared; it is opened and closed.
        target: its copy, likewise.
        patterns: of the source's topics; all that are not internal where there are none.
        naming: what the topics are called at the target.
        rules: what has to be equal.
        begun: is told how many offsets of the source are to be gone through.
        advanced: is told of the progress.

    Raises:
        UsageProblem: a pattern is no regular expression.
        OperationError: a cluster does not answer, or there are no such topics.
    """
    try:
        async with source, target:
            found = await source.topics()
            topics = {name: found[name] for name in chosen_topics(found, patterns)}
            if not topics:
                raise OperationError("the source cluster has no such topics")
            verification = Verification(source, target, rules, advanced)
            outcomes = await verification.prepare(topics, naming)
            begun(verification.offsets_total)
            await verification.run(outcomes.append)
    except BadPattern as error:
        raise UsageProblem(str(error)) from None
    except OttlaError as error:
        raise OperationError(str(error)) from None
    return sorted(outcomes, key=lambda each: (each.topic, each.partition))
