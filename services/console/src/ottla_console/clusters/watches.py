"""The watches of all users and clusters: found again by whose they are, bounded, ended when nobody looks."""

import time
from collections import OrderedDict
from typing import Final

from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.cluster_watch import ClusterWatch
from ottla_console.clusters.credentials import Login
from ottla_console.config.cluster_settings import ClusterSettings

WATCHES_MAX: Final = 200
IDLE_MAX_S: Final = 600.0

Whose = tuple[str, Login | None]


class Watches:
    """Watches by cluster and credentials; the one that was not used for longest makes way.

    Args:
        threads: where clusters are asked.
    """

    def __init__(self, threads: BoundedThreads) -> None:
        self._threads = threads
        self._watches: OrderedDict[Whose, tuple[ClusterWatch, float]] = OrderedDict()
        self._kept: set[Whose] = set()

    def keep(self, settings: ClusterSettings) -> None:
        """Look for what changes in a cluster from now on, whether somebody looks or not, with its own credentials."""
        self._kept.add((settings.name, None))
        self.of(settings, None)

    def __len__(self) -> int:
        return len(self._watches)

    def of(self, settings: ClusterSettings, credentials: Login | None) -> ClusterWatch:
        """Return what is kept of a cluster for whoever has these credentials."""
        whose = (settings.name, credentials)
        now_s = time.monotonic()
        found = self._watches.get(whose)
        watch = found[0] if found else ClusterWatch(ClusterKit(settings, credentials, self._threads))
        self._watches[whose] = (watch, now_s)
        self._watches.move_to_end(whose)
        self.make_room(now_s)
        watch.keep_watching(without_end=whose in self._kept)
        return watch

    def end(self, settings: ClusterSettings, credentials: Login | None) -> None:
        """Close the connections of whoever has signed out."""
        if found := self._watches.pop((settings.name, credentials), None):
            found[0].kit.close()

    def close(self) -> None:
        """Close all connections."""
        while self._watches:
            self._watches.popitem()[1][0].kit.close()

    def make_room(self, now_s: float) -> None:
        """Close the connections that nobody has used for long, and those beyond `WATCHES_MAX`."""
        for whose, (watch, used_s) in list(self._watches.items()):
            if len(self._watches) <= WATCHES_MAX and now_s - used_s <= IDLE_MAX_S:
                return
            if whose not in self._kept:
                del self._watches[whose]
                watch.kit.close()
