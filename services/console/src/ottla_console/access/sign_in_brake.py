"""The brake on guessing passwords: after some failures in a row, each attempt has to wait, longer each time. Pure.

Failures are counted by user, which slows whoever guesses one user's password from many addresses, and by address,
which slows whoever tries one password with many users. An attempt counts as a failure from its beginning, so attempts
at the same time win nothing. One that has to wait is not made, so the cluster judges no password for it.
"""

import hashlib
import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from typing import Final

ENTRIES_MAX: Final = 10_000
"""Users, and as many addresses, whose failures are remembered one by one; see `_Counted` for what makes way."""
DROPPED_AT_ONCE_MAX: Final = 2
FORGOTTEN_AFTER_S: Final = 3600.0
IPV6_NETWORK_BITS: Final = 64
"""A single host has as many IPv6 addresses as it likes within its network."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How attempts slow down: after so many failures one second, then twice as long each time, up to a most."""

    free: int
    delay_max_s: int


OF_USER: Final = Pace(free=3, delay_max_s=300)
OF_ADDRESS: Final = Pace(free=20, delay_max_s=60)
"""Gentler, as all who come by a proxy have one address."""


@dataclass(slots=True)
class _Failures:
    count: int
    newest_s: float


class _Counted:
    """Failures by what they are counted by.

    When the table is full, the ones that slow nobody yet make way, the oldest first, and those that are forgotten.
    Where each of them slows somebody, newcomers share one entry. So nobody gets rid of a wait by failing with other
    names or from other addresses, and a newcomer is counted as well.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._fast: OrderedDict[str, _Failures] = OrderedDict()
        self._slowed: OrderedDict[str, _Failures] = OrderedDict()
        self._newcomers = _Failures(0, 0.0)

    def __len__(self) -> int:
        return len(self._fast) + len(self._slowed)

    def wait_s(self, key: str, now_s: float) -> float:
        self._drop_forgotten(now_s)
        found = self._of(key)
        if found is None or now_s - found.newest_s >= FORGOTTEN_AFTER_S:
            return 0.0
        beyond = found.count - self._pace.free
        delay_s = 0 if beyond < 0 else min(self._pace.delay_max_s, 2 ** min(beyond, 32))
        return max(0.0, found.newest_s + delay_s - now_s)

    def add(self, key: str, now_s: float) -> None:
        self._drop_forgotten(now_s)
        found = self._fast.pop(key, None) or self._slowed.pop(key, None)
        if found is None:
            found = self._newcomers if self._is_full_of_slowed else _Failures(0, now_s)
        if now_s - found.newest_s >= FORGOTTEN_AFTER_S:
            found.count = 0
        found.count += 1
        found.newest_s = now_s
        if found is self._newcomers:
            return
        if len(self) >= ENTRIES_MAX:
            self._fast.popitem(last=False)
        (self._fast if found.count < self._pace.free else self._slowed)[key] = found

    def take_back(self, key: str) -> None:
        found = self._of(key)
        if found is None or found.count <= 0:
            return
        found.count -= 1
        if found is self._newcomers:
            return
        if found.count == 0:
            self.forget(key)
        elif found.count < self._pace.free and key in self._slowed:
            self._fast[key] = self._slowed.pop(key)

    def forget(self, key: str) -> None:
        """Forget what is counted for a key alone; of the newcomers' failures one is taken back."""
        if self._fast.pop(key, None) is None and self._slowed.pop(key, None) is None:
            self.take_back(key)

    @property
    def _is_full_of_slowed(self) -> bool:
        return len(self._slowed) >= ENTRIES_MAX

    def _of(self, key: str) -> _Failures | None:
        """Return the failures that hold for a key."""
        found = self._fast.get(key) or self._slowed.get(key)
        return self._newcomers if found is None and self._is_full_of_slowed else found

    def _drop_forgotten(self, now_s: float) -> None:
        """Drop what no longer counts among the oldest; no attempt adds more than one entry, so two keep up."""
        for entries in (self._fast, self._slowed):
            for _ in range(DROPPED_AT_ONCE_MAX):
                key, oldest = next(iter(entries.items()), ("", None))
                if oldest is None or now_s - oldest.newest_s < FORGOTTEN_AFTER_S:
                    break
                del entries[key]


class SignInBrake:
    """Judges whether an attempt to sign in may be made now.

    Attributes:
        delayed: attempts that had to wait, by what had failed too often.
    """

    def __init__(self) -> None:
        self._users = _Counted(OF_USER)
        self._addresses = _Counted(OF_ADDRESS)
        self.delayed = {"user": 0, "address": 0}

    def __len__(self) -> int:
        return len(self._users) + len(self._addresses)

    def begin(self, cluster: str, user: str, address: str, now_s: float) -> int:
        """Return after how many seconds the attempt may be made; 0: now, and it counts as failed from here on."""
        user_key, address_key = _user_key(cluster, user), _network_of(address)
        by_user_s, by_address_s = self._users.wait_s(user_key, now_s), self._addresses.wait_s(address_key, now_s)
        if by_user_s > 0 or by_address_s > 0:
            self.delayed["user" if by_user_s >= by_address_s else "address"] += 1
            return ceil(max(by_user_s, by_address_s))
        self._users.add(user_key, now_s)
        self._addresses.add(address_key, now_s)
        return 0

    def succeeded(self, cluster: str, user: str, address: str) -> None:
        """Forget a user's failures; those of an address stay, or a user of one's own would wipe them out."""
        self._users.forget(_user_key(cluster, user))
        self._addresses.take_back(_network_of(address))

    def not_judged(self, cluster: str, user: str, address: str) -> None:
        """Take an attempt back that the cluster has not judged, as it could not be reached."""
        self._users.take_back(_user_key(cluster, user))
        self._addresses.take_back(_network_of(address))


def _user_key(cluster: str, user: str) -> str:
    """Return a key of bounded length, however long a name is."""
    return hashlib.sha256(f"{cluster}\0{user}".encode(errors="surrogatepass")).hexdigest()


def _network_of(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
