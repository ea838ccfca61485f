"""What whoever asks may do with a cluster as a whole, as the cluster's access control lists say."""

from typing import Final

from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.errors import OperationError

ALTER: Final = 7
"""Kafka's number of the operation (`org.apache.kafka.common.acl.AclOperation`), and its bit."""
NOT_TOLD: Final = -(2**31)


def check_may_alter(admin: ClusterAdmin, what: str) -> None:
    """See that whoever asks may alter the cluster: the right that stands in for what no list of the cluster governs.

    Args:
        admin: the cluster, asked with the credentials of whoever wants it.
        what: is wanted, for the message.

    Raises:
        OperationError: the cluster does not say so.
    """
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest  # noqa: PLC0415

    request = DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=False)
    operations = admin.ask(request).cluster_authorized_operations
    if operations == NOT_TOLD or not (operations >> ALTER) & 1:
        raise OperationError(f"{what} takes the right to alter the cluster (the operation Alter of the cluster)")
