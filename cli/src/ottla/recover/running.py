"""Carrying out a plan: what `recover` and `restore` share, with errors in the words of commands."""

from contextlib import AbstractAsyncContextManager

from ottla.output import progress_bar
from ottla.recover.merging import RecoveryPlan
from ottla.recover.writing import check_target, write_state
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.feature_check import check_supported
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.errors import OttlaError
from ottla_operations.errors import OperationError


async def carry_out(plan: RecoveryPlan, etcd: AbstractAsyncContextManager[EtcdClient], *, dry_run: bool) -> None:
    """Write a plan's state into etcd, or only see that it could be.

    Raises:
        OperationError: it cannot be written.
    """
    try:
        check_known(plan)
        async with etcd as client:
            prefix = KeySpace(plan.cluster_name).prefix
            check_target(await client.list_prefix(prefix), prefix)
            if dry_run:
                return
            with progress_bar() as bar:
                task = bar.add_task("writing the cluster's state", total=len(plan.entries))
                await write_state(client, plan, lambda done, _total: bar.update(task, completed=done))
    except OttlaError as error:
        raise OperationError(str(error)) from None


def check_known(plan: RecoveryPlan) -> None:
    """See that this release has the levels of features that the state is at.

    Raises:
        LevelUnsupported: it has not.
    """
    features = plan.entries.get("features")
    if features is not None:
        check_supported(codec.decode_features(features, 0))
