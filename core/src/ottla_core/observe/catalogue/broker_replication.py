"""What brokers show of replication, and of topics that follow another cluster's."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_broker = MetricFamily(ProcessRole.BROKER)

REPLICA_ROLE = Label("role", "leader or follower", "two")
ISR_CHANGE = Label("change", "shrink, expand, or failed for changes that were not made", "three")

REPLICATION: Final[tuple[MetricDefinition, ...]] = (
    _broker.gauge("ottla_broker_partitions", "Partitions held.", REPLICA_ROLE),
    _broker.gauge(
        "ottla_broker_under_replicated_partitions", "Partitions led here of which not every replica is in sync."
    ),
    _broker.gauge(
        "ottla_broker_under_min_isr_partitions",
        "Partitions led here with fewer replicas in sync than min.insync.replicas asks for.",
    ),
    _broker.gauge(
        "ottla_broker_longest_log_searches",
        "Partitions to be led here, once it is known that no other replica has a longer log.",
    ),
    _broker.counter(
        "ottla_broker_isr_changes_total", "Changes of in-sync sets that leaders here asked for.", ISR_CHANGE
    ),
    _broker.gauge("ottla_broker_replica_fetchers", "Connections over which this broker fetches from leaders."),
    _broker.counter("ottla_broker_replicated_size_bytes_total", "Bytes of records fetched from leaders."),
)

LINK = Label("link", "name of a link", "the cluster's links")
PROBLEM = Label("kind", "kind of problem, or FAILED for a last round that failed", "a few, fixed by the program")
WHAT = Label("what", "topics or groups", "two")
LINK_STATE = Label("state", "state of a linked partition", "a few, fixed by the program")
LINKED_TOPIC = Label(
    "topic", "name of a linked topic", "linked topics led here; series beyond the limit are left out"
)
PARTITION = Label("partition", "number of the partition", "partitions of that topic")

LINKS: Final[tuple[MetricDefinition, ...]] = (
    _broker.gauge(
        "ottla_broker_link_problems",
        "What is not as in the source of a link that this broker keeps in step.",
        LINK,
        PROBLEM,
    ),
    _broker.gauge(
        "ottla_broker_link_in_step_timestamp_seconds",
        "When a link that this broker keeps was last in step with its source, in seconds since 1970.",
        LINK,
        WHAT,
    ),
    _broker.counter("ottla_broker_link_fetched_bytes_total", "Bytes of records fetched from source clusters."),
    _broker.gauge("ottla_broker_link_partitions", "Linked partitions that this broker leads.", LINK, LINK_STATE),
    _broker.gauge(
        "ottla_broker_link_lag",
        "Offsets of the source that a linked partition does not have yet, as of the source's last answer.",
        LINK,
        LINKED_TOPIC,
        PARTITION,
    ),
    _broker.counter(
        "ottla_broker_link_records_missed_total",
        "Offsets that sources had deleted before they were copied, as far as present leaders have noticed.",
        LINK,
        LINKED_TOPIC,
        PARTITION,
    ),
)
