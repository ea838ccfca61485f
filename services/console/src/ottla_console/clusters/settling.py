"""Waiting until a cluster shows a change, so that the page behind a form is not from before it.

A broker may learn of a change a little later than the controller that has carried it out, and a page does not choose
which brokers it asks, so all of them have to know of it.
"""

import time
from collections.abc import Callable
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_operations.cluster.cluster_view import ClusterView

SETTLED_WITHIN_S: Final = 5.0
LOOK_INTERVAL_S: Final = 0.1


def wait_until_shown(kit: ClusterKit, is_shown: Callable[[ClusterView], bool]) -> None:
    """Return when every broker that answers shows a change, or `SETTLED_WITHIN_S` have passed; in a thread.

    Raises:
        OperationError: the cluster cannot be asked.
    """
    until_s = time.monotonic() + SETTLED_WITHIN_S
    with kit.cluster_admin() as admin:
        waiting = list(admin.view().brokers.values())
        while waiting and time.monotonic() < until_s:
            view = admin.view_of(waiting[-1])
            if view is None or is_shown(view):
                waiting.pop()
            else:
                time.sleep(LOOK_INTERVAL_S)
