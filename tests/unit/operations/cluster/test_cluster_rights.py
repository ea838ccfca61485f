"""Whether somebody may alter a cluster, as the cluster says."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla_operations.cluster.cluster_rights import NOT_TOLD, check_may_alter
from ottla_operations.errors import OperationError

CREATE, DESCRIBE, ALTER, ALTER_CONFIGS = 1 << 5, 1 << 8, 1 << 7, 1 << 11


def answering(operations: int) -> Any:
    return SimpleNamespace(ask=lambda request: SimpleNamespace(cluster_authorized_operations=operations))


@pytest.mark.parametrize("operations", [ALTER, ALTER | DESCRIBE | CREATE])
def test_who_may_alter_the_cluster_is_let_on(operations: int) -> None:
    check_may_alter(answering(operations), "this")


@pytest.mark.parametrize("operations", [NOT_TOLD, 0, DESCRIBE | CREATE | ALTER_CONFIGS])
def test_who_may_not_or_of_whom_nothing_is_told_is_refused(operations: int) -> None:
    with pytest.raises(OperationError, match="this takes the right to alter the cluster"):
        check_may_alter(answering(operations), "this")
