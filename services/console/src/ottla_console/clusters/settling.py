"""Waiting until a cluster shows a change, so that the page behind a form is not from before it.

The broker that a page asks may learn of a change a little later than the controller that has carried it out.
"""

import time
from collections.abc import Callable
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_operations.cluster.cluster_view import ClusterView

SETTLED_WITHIN_S: Final = 5.0
LOOK_INTERVAL_S: Final = 0.1


def wait_until_shown(kit: ClusterKit, is_shown: Callable[[ClusterView], bool]) -> None:
    """Return when the cluster shows a change, or has not for `SETTLED_WITHIN_S`; in a thread.

    Raises:
        OperationError: the cluster cannot be asked.
    """
    until_s = time.monotonic() + SETTLED_WITHIN_S
    with kit.cluster_admin() as admin:
        while not is_shown(admin.view()) and time.monotonic() < until_s:
            time.sleep(LOOK_INTERVAL_S)
