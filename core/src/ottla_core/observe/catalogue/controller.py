"""What controllers show: every one of them all of it, by its own view of the cluster's state."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_controller = MetricFamily(ProcessRole.CONTROLLER)

ELECTION = Label("kind", "clean, or unclean for a leader that may have lacked records", "two")

CONTROLLER: Final[tuple[MetricDefinition, ...]] = (
    _controller.gauge("ottla_controller_leads", "Whether this controller leads: 1 or 0."),
    _controller.gauge("ottla_controller_brokers", "Brokers that are there."),
    _controller.gauge("ottla_controller_group_coordinators", "Group coordinators that are there."),
    _controller.gauge("ottla_controller_topics", "Topics of the cluster."),
    _controller.gauge("ottla_controller_offline_partitions", "Partitions without a leader."),
    _controller.counter(
        "ottla_controller_elections_total",
        "Elections of partitions' leaders that this controller has seen; those of new topics do not count.",
        ELECTION,
    ),
    _controller.gauge(
        "ottla_controller_under_replicated_partitions", "Partitions of which not every replica is in sync."
    ),
    _controller.gauge(
        "ottla_controller_under_min_isr_partitions",
        "Partitions with fewer replicas in sync than min.insync.replicas asks for.",
    ),
    _controller.gauge(
        "ottla_controller_preferred_replica_imbalance",
        "Partitions that another replica leads than the preferred one.",
    ),
    _controller.gauge("ottla_controller_reassigning_partitions", "Partitions that are being moved to other brokers."),
    _controller.gauge(
        "ottla_controller_shards_without_coordinator",
        "Partitions of __consumer_offsets and __transaction_state that no group coordinator owns.",
    ),
)
