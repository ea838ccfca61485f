"""What clients use of their quotas on this broker, and for how long they are throttled.

A client that is above a quota is answered at once; the answer says for how long it is throttled, and so long its
connection is not read (KIP-219). Quotas hold per broker, as in Kafka, and a changed one holds at once.

Without quotas a request costs the test of `are_on`. With quotas it costs the look-up of its client's meters, which
are found once for each user and client id. Client ids are chosen by clients: what one costs is bounded, and a use is
not forgotten for it while it counts (`usage_table.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from random import random
from typing import Any, Final, Protocol

from ottla_broker.quotas.quota_limits import QuotaLimit, Quotas, limit_of, names_of_clients
from ottla_broker.quotas.sampled_rate import THROTTLE_MS_MAX, RateWindow, SampledRate, TokenBucket
from ottla_broker.quotas.usage_table import UsageTable
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import QuotaName
from ottla_core.principal import Principal
from ottla_core.wire.messages import RequestHeader

CLIENTS_MAX: Final = 10_000
"""Users and client ids whose meters are known; beyond, those that were found first are found anew."""
PRODUCE_KEY: Final = 0
LEAST_RECORDED_S: Final = 0.02
"""Bytes are recorded when they are what a quota allows in this time: less does not matter to a rate over seconds."""
MEASURED_ONE_IN: Final = 32
RARE_NS: Final = 10_000_000
"""A request that comes this long after the one that was measured before does not choose by lot which one is next."""
METERS_MAX: Final = 10_000
"""Uses of each kind of quota that are metered; beyond, only those make way that no longer count."""
CLIENT_ID_CHARACTERS_MAX: Final = 255
"""The longest client id that is kept as it is; of a longer one, its beginning and a hash."""
RATED: Final = (QuotaName.PRODUCER_BYTE_RATE, QuotaName.CONSUMER_BYTE_RATE, QuotaName.REQUEST_PERCENTAGE)
PERCENT_PER_NS: Final = 100 / 1e9

SharedBy = tuple[str | None, str | None]
"""Whose use it is: of this user and this client id, bounded; None where it is of all."""
Rates = UsageTable[SharedBy, SampledRate]
Buckets = UsageTable[SharedBy, TokenBucket]


class Client(Protocol):
    """A client's connection, as it is throttled.

    Attributes:
        meters: of its client, as it was last looked up.
    """

    meters: "Meters | None"

    @property
    def principal(self) -> Principal:
        """Who the client is."""

    def throttle(self, throttle_ms: int) -> None:
        """Read nothing from the client for so long."""


class Meter:
    """What is used of one quota by those who share it.

    Attributes:
        limit_per_second: the quota.
        least: how much is recorded at once; less waits for more.
        rate: what was used.
    """

    __slots__ = ("_key", "_rates", "_user", "least", "limit_per_second", "rate")

    def __init__(self, rates: Rates, key: SharedBy, user: str, limit_per_second: float, now_ms: int) -> None:
        self._rates = rates
        self._key = key
        self._user = user
        self.limit_per_second = limit_per_second
        self.rate = rates.of(key, user, limit_per_second, now_ms)
        self.least = limit_per_second * LEAST_RECORDED_S

    def keep_up(self, now_ms: int) -> None:
        """Go on with the rate that is kept now of those who share the quota."""
        self.rate = self._rates.of(self._key, self._user, self.limit_per_second, now_ms)


class MutationMeter:
    """How many partitions may still come and go for those who share a quota."""

    __slots__ = ("_buckets", "_key", "_limit_per_second", "_now_ms", "_user", "_window_ms")

    def __init__(
        self,
        buckets: Buckets,
        key: SharedBy,
        user: str,
        limit_per_second: float,
        *,
        window_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._buckets = buckets
        self._key = key
        self._user = user
        self._limit_per_second = limit_per_second
        self._window_ms = window_ms
        self._now_ms = now_ms

    def record(self, count: int) -> None:
        """Note that so many come or go."""
        now_ms = self._now_ms()
        self._bucket(now_ms).record(count, self._limit_per_second, now_ms)

    def throttle_ms(self) -> int:
        """Return for how many milliseconds no other may come or go; 0 if it may.

        Of a debt that others have made as well, nobody waits for more than a window at a time.
        """
        now_ms = self._now_ms()
        bucket = self._bucket(now_ms)
        throttle_ms = bucket.throttle_ms(self._limit_per_second, now_ms)
        return throttle_ms if bucket.is_kept else min(throttle_ms, self._window_ms)

    def _bucket(self, now_ms: int) -> TokenBucket:
        return self._buckets.of(self._key, self._user, self._limit_per_second, now_ms)


class ThrottleCount:
    """How often clients were throttled for one kind of quota, and for how long in all."""

    __slots__ = ("count", "throttled_ms")

    def __init__(self) -> None:
        self.count = 0
        self.throttled_ms = 0

    def add(self, throttle_ms: int) -> None:
        """Count one."""
        self.count += 1
        self.throttled_ms += throttle_ms


@dataclass(slots=True)
class Meters:
    """The meters of one user's client id; None where no quota holds for it.

    Attributes:
        client_id: bounded.
        generation: of the quotas, of which they are.
        count: requests so far.
        counted: requests up to the one whose time was last measured.
        due: at which count the next one is measured.
        measured_ns: when one was last measured.
    """

    principal: Principal
    client_id: str | None
    generation: int
    produced: Meter | None
    fetched: Meter | None
    used_time: Meter | None
    mutations: MutationMeter | None
    count: int = 0
    counted: int = 0
    due: int = 1
    measured_ns: int = 0

    def weigh(self, now_ns: int) -> int:
        """Return for how many requests the one stands that is measured now, and draw the next one."""
        weight, self.counted = self.count - self.counted, self.count
        is_rare, self.measured_ns = now_ns - self.measured_ns > RARE_NS, now_ns
        # By lot from 1 to twice as many, less one: the mean is `MEASURED_ONE_IN`.
        self.due = self.count + (1 if is_rare else 1 + int(random() * (2 * MEASURED_ONE_IN - 1)))  # noqa: S311
        return weight


class ClientQuotas:
    """Meters of clients.

    Attributes:
        are_on: whether any client has a quota.
        throttled: how often clients were throttled, by what for.
    """

    def __init__(self, window: RateWindow, mutation_window: RateWindow, clock: Clock) -> None:
        self._window = window
        self._mutation_window = mutation_window
        self._clock = clock
        self._quotas: Quotas = {}
        self._limited: frozenset[str] = frozenset()
        self._meters: dict[tuple[str, str], Meters] = {}
        # Apart by whether client ids are told apart, which clients choose: no number of those touches users' quotas.
        self._rates: Mapping[tuple[QuotaName, bool], Rates] = {
            (name, by_client_id): UsageTable(lambda: SampledRate(window), METERS_MAX)
            for name in RATED
            for by_client_id in (False, True)
        }
        self._buckets: Mapping[bool, Buckets] = {
            by_client_id: UsageTable(lambda: TokenBucket(mutation_window), METERS_MAX)
            for by_client_id in (False, True)
        }
        self._generation = 0
        self.are_on = False
        self.throttled = {name: ThrottleCount() for name in QuotaName}

    def state_changed(self, former: ClusterState | None, new: ClusterState) -> None:
        """Go by the quotas of a new state; what was used stays used."""
        quotas = new.security.client_quotas
        if former is not None and former.security.client_quotas is quotas:
            return
        self._quotas = quotas
        self._limited = names_of_clients(quotas)
        self.are_on = bool(self._limited)
        self._generation += 1
        self._meters.clear()
        if not self.are_on:
            for rates in self._rates.values():
                rates.clear()
            for buckets in self._buckets.values():
                buckets.clear()

    def take(self, connection: Client, header: RequestHeader, size_bytes: int) -> bool:
        """Count a request that comes, and throttle its client if it brings too much to be produced.

        Returns whether its time is to be measured: of a client that asks often, that of few requests is.
        """
        client_id = header.client_id
        meters = connection.meters
        if (
            meters is None
            or meters.generation != self._generation
            or meters.client_id != client_id
            or meters.principal is not connection.principal
        ):
            meters = self._of(connection, client_id)
        if header.api_key == PRODUCE_KEY and (meter := meters.produced) is not None:
            meter.rate.pending += size_bytes
            if meter.rate.pending >= meter.least:
                self._use(connection, QuotaName.PRODUCER_BYTE_RATE, meter, 0)
        if meters.used_time is None:
            return False
        meters.count += 1
        return meters.count >= meters.due

    def may_fetch(self, connection: Client, client_id: str | None, size_bytes: int) -> bool:
        """Count what a client is to be given, if it may have it; if not, throttle it and count nothing.

        A client that was given nothing within the window may have what it takes, and is throttled after that: a
        single batch may be more than a window's worth, and would never be read.
        """
        meter = self._of(connection, client_id).fetched
        if meter is None:
            return True
        if not meter.rate.is_kept:
            meter.keep_up(self._now_ms())
        was_unused = meter.rate.is_unused
        if meter.rate.pending + size_bytes < meter.least:
            meter.rate.pending += size_bytes
            return True
        if self._use(connection, QuotaName.CONSUMER_BYTE_RATE, meter, size_bytes) and not was_unused:
            meter.rate.record(-size_bytes, self._now_ms())
            return False
        return True

    def fetch_bytes_max(self, connection: Client, client_id: str | None, asked_bytes: int) -> int:
        """Return what a client may be given with one answer of what it asks for: a window's worth at most."""
        meter = self._of(connection, client_id).fetched
        if meter is None:
            return asked_bytes
        window_s = max(1, self._window.samples - 1) * self._window.sample_ms / 1000
        return min(asked_bytes, int(meter.limit_per_second * window_s))

    def mutation_meter(self, connection: Client, client_id: str | None) -> MutationMeter | None:
        """Return what meters the partitions that come and go for a client; None if it has no quota of them."""
        return self._of(connection, client_id).mutations

    def throttle_for_mutations(self, connection: Client, meter: MutationMeter) -> None:
        """Throttle a client for as long as nothing may come or go for it."""
        throttle_ms = meter.throttle_ms()
        if throttle_ms:
            self._throttle(connection, QuotaName.CONTROLLER_MUTATION_RATE, throttle_ms)

    def weigh_time(self, connection: Client, client_id: str | None, now_ns: int) -> int:
        """Return for how many requests of a client one stands whose time is measured."""
        return self._of(connection, client_id).weigh(now_ns)

    def note_time(self, connection: Client, client_id: str | None, used_ns: int) -> None:
        """Count for how long a request of a client was worked on, and throttle the client if that is too much."""
        meter = self._of(connection, client_id).used_time
        if meter is not None:
            self._use(
                connection,
                QuotaName.REQUEST_PERCENTAGE,
                meter,
                used_ns * PERCENT_PER_NS,
                throttle_ms_max=self._window.sample_ms,
            )

    def _use(
        self, connection: Client, name: QuotaName, meter: Meter, value: float, throttle_ms_max: int = THROTTLE_MS_MAX
    ) -> int:
        """Count a use; return for how many milliseconds the client is throttled for it."""
        now_ms = self._now_ms()
        value += meter.rate.pending
        meter.rate.pending = 0.0
        if not meter.rate.is_kept:
            meter.keep_up(now_ms)
        meter.rate.record(value, now_ms)
        throttle_ms = meter.rate.throttle_ms(meter.limit_per_second, now_ms)
        if not meter.rate.is_kept:  # others have used it as well, and nobody waits for them for ever
            throttle_ms = min(throttle_ms, self._window.milliseconds)
        if throttle_ms:
            self._throttle(connection, name, min(throttle_ms, throttle_ms_max))
        return throttle_ms

    def _throttle(self, connection: Client, name: QuotaName, throttle_ms: int) -> None:
        self.throttled[name].add(throttle_ms)
        connection.throttle(throttle_ms)

    def _of(self, connection: Client, client_id: str | None) -> Meters:
        kept_id = None if client_id is None else bounded_client_id(client_id)
        user = connection.principal.name
        found = self._meters.get((user, kept_id or ""))
        if found is None:
            _drop_first(self._meters, CLIENTS_MAX)
            found = self._meters[user, kept_id or ""] = Meters(
                principal=connection.principal,
                client_id=kept_id,
                generation=self._generation,
                produced=self._meter(QuotaName.PRODUCER_BYTE_RATE, user, client_id or ""),
                fetched=self._meter(QuotaName.CONSUMER_BYTE_RATE, user, client_id or ""),
                used_time=self._meter(QuotaName.REQUEST_PERCENTAGE, user, client_id or ""),
                mutations=self._mutation_meter(user, client_id or ""),
            )
        connection.meters = found
        return found

    def _meter(self, name: QuotaName, user: str, client_id: str) -> Meter | None:
        limit = limit_of(self._quotas, name, user, client_id) if name in self._limited else None
        if limit is None:
            return None
        rates = self._rates[name, limit.client_id is not None]
        return Meter(rates, _shared_by(limit), user, limit.per_second, self._now_ms())

    def _mutation_meter(self, user: str, client_id: str) -> MutationMeter | None:
        name = QuotaName.CONTROLLER_MUTATION_RATE
        limit = limit_of(self._quotas, name, user, client_id) if name in self._limited else None
        if limit is None:
            return None
        buckets = self._buckets[limit.client_id is not None]
        window_ms = self._mutation_window.milliseconds
        shared_by, per_second = _shared_by(limit), limit.per_second
        return MutationMeter(buckets, shared_by, user, per_second, window_ms=window_ms, now_ms=self._now_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def bounded_client_id(client_id: str) -> str:
    """Return what is kept of a client id: the same for the same one, and of bounded length."""
    if len(client_id) <= CLIENT_ID_CHARACTERS_MAX:
        return client_id
    digest = blake2b(client_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return client_id[: CLIENT_ID_CHARACTERS_MAX - len(digest)] + digest


def _shared_by(limit: QuotaLimit) -> SharedBy:
    return limit.user, None if limit.client_id is None else bounded_client_id(limit.client_id)


def _drop_first(table: dict[Any, Any], most: int) -> None:
    while len(table) >= most:
        del table[next(iter(table))]
