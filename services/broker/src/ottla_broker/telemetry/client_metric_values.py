"""The present values of what clients have pushed, by client id and metric, in a bounded number. Pure.

Clients with the same client id stand together: of what goes up and down (a latency, a lag) the highest value of all
counts, over a metric's partitions and nodes as well; what was counted is added up. The first `CLIENT_IDS_MAX` client
ids have values of their own and all others share `OTHER_CLIENTS`; of metrics the first `METRICS_MAX` are kept. What
no client pushes any more makes room.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

CLIENT_IDS_MAX: Final = 49
METRICS_MAX: Final = 100
"""With all others as one more client, these make as many series as a metric may have (`metrics.SERIES_MAX`)."""
OTHER_CLIENTS: Final = "_other"


@dataclass(frozen=True, slots=True)
class PushedValues:
    """The values of a push by metric.

    Attributes:
        highest: of each gauge, the highest value.
        increases: of each sum, the increase since the push before, of all its points together.
    """

    highest: Mapping[str, float]
    increases: Mapping[str, float]


@dataclass(slots=True)
class _Client:
    """The clients of one client id, or all that share one.

    Attributes:
        highest: by instance, its last values.
        totals: by metric, since the first of these clients was known.
    """

    highest: dict[UUID, Mapping[str, float]] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)


class ClientMetricValues:
    """The present values.

    Attributes:
        left_out: how many values of pushes were not kept because there were too many metrics.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._clients: dict[str, _Client] = {}
        self._names: dict[UUID, str] = {}
        self._metrics: Counter[str] = Counter()
        self._metrics_of: dict[UUID, frozenset[str]] = {}

    def take(self, instance_id: UUID, client_id: str, pushed: PushedValues) -> None:
        """Take the values of an instance's push in place of those of its push before."""
        name = self._names.get(instance_id)
        if name is None:
            has_room = client_id in self._clients or len(self._clients.keys() - {OTHER_CLIENTS}) < CLIENT_IDS_MAX
            name = self._names[instance_id] = client_id if has_room else OTHER_CLIENTS
        client = self._clients.setdefault(name, _Client())
        kept = self._count_metrics(instance_id, dict.fromkeys((*pushed.highest, *pushed.increases)))
        client.highest[instance_id] = {metric: value for metric, value in pushed.highest.items() if metric in kept}
        for metric, increase in pushed.increases.items():
            if metric in kept:
                client.totals[metric] = client.totals.get(metric, 0.0) + increase

    def forget(self, instance_id: UUID) -> None:
        """Forget an instance, and its client id with the last instance of it."""
        name = self._names.pop(instance_id, None)
        if name is None:
            return
        self._count_metrics(instance_id, ())
        client = self._clients[name]
        del client.highest[instance_id]
        if not client.highest:
            del self._clients[name]

    def highest(self) -> Iterator[tuple[float, Mapping[str, str]]]:
        """Yield the highest value of each client id and gauge, with these two as labels."""
        for name, client in tuple(self._clients.items()):
            found: defaultdict[str, float] = defaultdict(lambda: float("-inf"))
            for values in tuple(client.highest.values()):
                for metric, value in values.items():  # replaced as a whole, never changed
                    found[metric] = max(found[metric], value)
            for metric, value in found.items():
                yield value, {"client_id": name, "metric": metric}

    def totals(self) -> Iterator[tuple[float, Mapping[str, str]]]:
        """Yield what each client id has counted of each sum, likewise."""
        for name, client in tuple(self._clients.items()):
            for metric, total in tuple(client.totals.items()):
                yield total, {"client_id": name, "metric": metric}

    def _count_metrics(self, instance_id: UUID, metrics: Iterable[str]) -> frozenset[str]:
        """Have an instance push these metrics from now on, and no others; return those that are kept."""
        former = self._metrics_of.pop(instance_id, frozenset())
        self._metrics.subtract(former)
        pushed = {metric for metric, instances in self._metrics.items() if instances}
        kept = set()
        for metric in sorted(metrics, key=lambda each: each not in former):  # what is kept stays
            if metric in pushed or len(pushed) < METRICS_MAX:
                pushed.add(metric)
                kept.add(metric)
            else:
                self.left_out += 1
        self._metrics.update(kept)
        if kept:
            self._metrics_of[instance_id] = frozenset(kept)
        for metric in former - pushed:
            del self._metrics[metric]
            for client in self._clients.values():
                client.totals.pop(metric, None)
        return frozenset(kept)
