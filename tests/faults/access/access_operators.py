"""Operators who change logins and rights while faults happen, and what must be true of them at every moment.

One gives a user another password again and again: as soon as a broker takes the new one it refuses the old one, and a
connection that had logged in by the old one goes on. One takes an outsider's right away and gives it back, or denies
it and takes that back, and `outsider_checker.py` judges what the outsider got done meanwhile. One changes the rights
of somebody who never comes, and one tries to get in by what is no good (`impostors.py`). When all is well again each
of them goes round once more, and then nothing is excused by a fault.
"""

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from tests.faults.access.access_requests import LATE_S, add_bindings, knows_binding, remove_bindings, set_password
from tests.faults.access.client_access import ClientAccess, LoginRefused
from tests.faults.access.impostors import Attempt, impostors, is_let_in, new_token
from tests.faults.access.mechanisms import Mechanism
from tests.faults.access.outsider import Outsider
from tests.faults.access.outsider_checker import Window, count_attempts, outsider_problems
from tests.faults.access.secured_clients import (
    IMPOSTOR,
    OUTSIDER,
    OUTSIDERS_BINDINGS,
    OUTSIDERS_DENIALS,
    OUTSIDERS_TOPIC,
    ROTATING,
    SecuredClients,
)
from tests.faults.cluster import Cluster
from tests.faults.cluster_view import ClusterView
from tests.faults.fault import BROKER, id_of
from tests.faults.operator_requests import OperatorRequests
from tests.faults.topics import PARTITIONS, Keeps, LoadTopic
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clients.raw_requests import metadata_request
from tests.support.eventually import eventually

OUTSIDE = LoadTopic(OUTSIDERS_TOPIC, Keeps.EVERYTHING, {})
PASSWORD_BYTES = 16
WINDOW_S = (0.3, 2.0)
PAUSE_S = (0.2, 1.0)
LOOK_PAUSE_S = 0.05
KNOWN_WITHIN_S = 150.0
"""A broker may be away for all of a trial's faults, and knows of nothing meanwhile."""
REFUSED_WITHIN_S = 30.0
"""A delegation token that was ended is good until a broker has heard of that."""
ANSWER_WITHIN_S = 5.0
DENIED_SHARE = 0.5
"""Of the times that the outsider loses its right."""
CHANGES_MAX = 20


class NoAccessOperators:
    """Nobody, for a cluster in which nobody logs in."""

    topics: Sequence[LoadTopic] = ()
    """Those that they need."""

    def prepare(self) -> None:
        """Gives the load its rights; returns when every broker knows them. The cluster must be well."""

    def begin(self) -> None:
        """Has them work, until `finish`."""

    def finish(self, view: ClusterView) -> list[str]:
        """Has them end, go round once more, and tells what was not as it must be; the cluster must be well."""
        return []

    def close(self) -> None:
        """Has everybody give up."""

    def told_counts(self) -> dict[str, int]:
        """How much was done."""
        return {}


class AccessOperators(NoAccessOperators):
    """Those of one cluster."""

    topics = (OUTSIDE,)

    def __init__(self, clients: SecuredClients, addresses: Mapping[int, tuple[str, int]], *, seed: int) -> None:
        self._problems: list[str] = []
        self._counts: Counter[str] = Counter()
        self._clients = clients
        self._plain_addresses = addresses
        self._seed = seed
        self._gave_up = threading.Event()
        self._ending = threading.Event()
        self._windows: list[Window] = []
        self._password: str | None = None
        self._impostors: Mapping[str, Attempt] = {}
        self._outsider: Outsider | None = None
        rounds: list[Callable[[OperatorRequests, random.Random, bool], None]] = [
            self._revoke_and_give_back,
            self._change_password,
            self._change_rights_of_somebody,
            self._try_to_get_in,
        ]
        self._rounds = {each.__name__.strip("_"): each for each in rounds}
        self._threads = [
            threading.Thread(target=self._work, args=(name,), name=name, daemon=True) for name in self._rounds
        ]

    def prepare(self) -> None:
        requests = self._requests("the beginning")
        bindings = [*self._clients.bindings, *OUTSIDERS_BINDINGS]
        add_bindings(requests, bindings)
        self._wait_until_all_know(requests, bindings, known=True)
        self._wait_until_taken(ROTATING)
        self._get_tokens()
        self._outsider = Outsider(
            self._clients.access_of(OUTSIDER),
            self._clients.addresses_of(OUTSIDER),
            OUTSIDERS_TOPIC,
            self._leaders,
            seed=f"outsider of {self._seed}",
        )

    def begin(self) -> None:
        assert self._outsider is not None
        self._outsider.start()
        for thread in self._threads:
            thread.start()

    def finish(self, view: ClusterView) -> list[str]:
        self._ending.set()
        for thread in self._threads:
            thread.join(KNOWN_WITHIN_S)
            if thread.is_alive():
                self._problems.append(f"an operator is not done: {thread.name}")
        for name in self._rounds:
            self._go_round(name, is_well=True)
        assert self._outsider is not None
        self._outsider.end()
        attempts = self._outsider.attempts
        places = [(OUTSIDERS_TOPIC, index) for index in range(PARTITIONS)]
        records = view.read_partitions(places, lambda message: int(message.value() or b""))
        stored = {number for found in records.values() for _, number in found}
        self._problems += outsider_problems(attempts, self._windows, stored)
        self._counts += Counter(count_attempts(attempts, self._windows))
        return [*self._problems, *([self._outsider.failure] if self._outsider.failure else [])]

    def close(self) -> None:
        self._gave_up.set()
        self._ending.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(KNOWN_WITHIN_S)
        if self._outsider is not None and self._outsider.ident is not None:
            self._outsider.end()

    def told_counts(self) -> dict[str, int]:
        return {f"access: {what}": count for what, count in sorted(self._counts.items())}

    def _get_tokens(self) -> None:
        """Gives those who need one a delegation token, and the impostor one that has been ended."""
        clients = self._clients
        for user in clients.token_users():
            clients.keep_token(user, *self._token_of(user))
            self._wait_until_taken(user)
        ended = clients.by_token(*self._token_of(IMPOSTOR, ended=True))
        self._impostors = impostors(clients, ended)
        for what, attempt in self._impostors.items():
            for address in attempt.addresses.values():
                eventually(
                    lambda access=attempt.access, address=address: not is_let_in(access, address),  # type: ignore[misc]
                    f"{address} refuses {what}",
                    within_s=REFUSED_WITHIN_S,
                )

    def _token_of(self, user: str, *, ended: bool = False) -> tuple[str, str]:
        access = self._clients.by_password(user, Mechanism.SCRAM_SHA_512)
        address = next(iter(self._clients.addresses_of(user).values()))

        def attempt() -> tuple[str, str]:
            try:
                with closing(access.connect(address)) as client:
                    return new_token(client, ended=ended)
            except (OSError, LoginRefused, Silence) as error:
                raise ConnectionError(str(error)) from error

        return eventually(attempt, f"{user} has a delegation token", within_s=KNOWN_WITHIN_S)

    def _try_to_get_in(self, _requests: OperatorRequests, chance: random.Random, _is_well: bool) -> None:
        """Tries everything that is no good at one broker."""
        for what, attempt in self._impostors.items():
            address = chance.choice(list(attempt.addresses.values()))
            if self._gave_up.is_set():
                return
            if is_let_in(attempt.access, address):
                self._problems.append(f"{address} let somebody in by {what}")
            self._counts["attempts to get in"] += 1

    def _requests(self, who: str) -> OperatorRequests:
        return OperatorRequests(self._plain_addresses, seed=f"{who} of {self._seed}", gave_up=self._gave_up)

    def _leaders(self) -> dict[int, int]:
        shown = self._requests(f"leaders at {time.monotonic_ns()}").topic(OUTSIDERS_TOPIC)
        if shown is None:
            raise ConnectionError(f"{OUTSIDERS_TOPIC} is not known")
        return {index: partition.leader for index, partition in shown.partitions.items()}

    def _work(self, name: str) -> None:
        chance = random.Random(f"{name} of {self._seed}")
        while not self._ending.wait(chance.uniform(*PAUSE_S)):
            if not self._go_round(name, is_well=False):
                return

    def _go_round(self, name: str, *, is_well: bool) -> bool:
        """One round of an operator; whether the next may follow."""
        who = f"{name}, {'all well' if is_well else 'amid faults'}, round {self._counts[name]}"
        try:
            self._rounds[name](self._requests(who), random.Random(f"{who} of {self._seed}"), is_well)
        except AssertionError as error:
            if not self._gave_up.is_set():
                self._problems.append(f"operator of {name}: {error}")
            return False
        self._counts[name] += 1
        return True

    def _revoke_and_give_back(self, requests: OperatorRequests, chance: random.Random, _is_well: bool) -> None:
        """Takes the outsider's right away, or denies it; and undoes that, each with a window in which all know."""
        is_denied = chance.random() < DENIED_SHARE
        bindings = OUTSIDERS_DENIALS if is_denied else OUTSIDERS_BINDINGS
        for has_right in (False, True):
            is_added = has_right is not is_denied
            self._bring_about(
                partial(add_bindings if is_added else remove_bindings, requests, bindings),
                partial(self._wait_until_all_know, requests, bindings, known=is_added),
            )
            from_s = time.monotonic()
            self._gave_up.wait(chance.uniform(*WINDOW_S))
            self._windows.append(Window(has_right, from_s, time.monotonic()))

    def _change_rights_of_somebody(self, requests: OperatorRequests, chance: random.Random, _is_well: bool) -> None:
        """Adds an entry about a user who never comes, and removes it."""
        binding = AclBinding(
            kind=ResourceKind.TOPIC,
            pattern=chance.choice(list(PatternType)),
            name=chance.choice([OUTSIDERS_TOPIC, OUTSIDERS_TOPIC[:1], "fruit"]),
            principal="User:bystander",
            host=chance.choice(["*", "192.0.2.1"]),
            operation=chance.choice([AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE]),
            permission=chance.choice(list(Permission)),
        )
        add_bindings(requests, [binding])
        self._gave_up.wait(chance.uniform(*PAUSE_S))
        remove_bindings(requests, [binding])

    def _change_password(self, requests: OperatorRequests, chance: random.Random, is_well: bool) -> None:
        """Gives a user another password, and looks who may log in."""
        former, new = self._clients.access_of(ROTATING, self._password), secrets.token_hex(PASSWORD_BYTES)
        addresses = self._clients.addresses_of(ROTATING)
        logged_in = _logged_in(former, chance.choice(list(addresses.values())))
        self._bring_about(
            partial(set_password, requests, ROTATING, new), partial(self._wait_until_taken, ROTATING, new)
        )
        self._password = new
        for address in addresses.values():
            if is_let_in(former, address):
                self._problems.append(f"{address} took the new password of {ROTATING}, and then the former one")
        if logged_in is None:
            return
        try:
            logged_in.ask(metadata_request([]))
            self._counts["connections that went on after a change of the password"] += 1
        except (OSError, Silence) as error:
            if is_well:
                self._problems.append(f"a connection ended because of another password: {error!r}")
        finally:
            logged_in.close()

    def _bring_about(self, change: Callable[[], bool], wait_until_known: Callable[[], None]) -> None:
        """Makes a change until nothing that was asked for before can come late; see `access_requests.py`.

        Raises:
            AssertionError: it does not come to that.
        """
        for _ in range(CHANGES_MAX):
            is_sure = change()
            wait_until_known()
            if is_sure:
                return
            assert not self._gave_up.wait(LATE_S), "given up"
        raise AssertionError(f"{CHANGES_MAX} times a request was not answered")

    def _wait_until_taken(self, user: str, password: str | None = None) -> None:
        """Waits until every broker takes a user's password or token.

        Raises:
            AssertionError: one does not.
        """
        access, deadline_s = self._clients.access_of(user, password), time.monotonic() + KNOWN_WITHIN_S
        for address in self._clients.addresses_of(user).values():
            while not is_let_in(access, address):
                assert time.monotonic() < deadline_s, f"{address} does not take the new password of {user}"
                assert not self._gave_up.wait(LOOK_PAUSE_S), "given up"

    def _wait_until_all_know(
        self, requests: OperatorRequests, bindings: list[AclBinding] | tuple[AclBinding, ...], *, known: bool
    ) -> None:
        """Waits until every broker goes by entries, or does so no more.

        Raises:
            AssertionError: one does not.
        """
        deadline_s = time.monotonic() + KNOWN_WITHIN_S
        left = [(broker, binding) for broker in self._plain_addresses for binding in bindings]
        while left:
            left = [(broker, binding) for broker, binding in left if not _agrees(requests, binding, broker, known)]
            if left:
                assert time.monotonic() < deadline_s, f"not known to broker {left[0][0]}: {left[0][1]}, {known}"
                assert not self._gave_up.wait(LOOK_PAUSE_S), "given up"


def access_operators_of(cluster: Cluster, *, seed: int) -> NoAccessOperators:
    """Those of a cluster, if it has users."""
    if cluster.clients is None:
        return NoAccessOperators()
    addresses = {id_of(name): cluster.kafka_address(name) for name in cluster.members.of(BROKER)}
    return AccessOperators(cluster.clients, addresses, seed=seed)


def _agrees(requests: OperatorRequests, binding: AclBinding, broker: int, known: bool) -> bool:
    try:
        return knows_binding(requests, binding, broker) is known
    except ConnectionError:
        return False


def _logged_in(access: ClientAccess, address: str) -> RawClient | None:
    try:
        return access.connect(address, within_s=ANSWER_WITHIN_S)
    except (OSError, Silence, LoginRefused):
        return None
