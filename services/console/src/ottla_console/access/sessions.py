"""Who is signed in: sessions in this process's memory, bounded in number, in idle time and in age. Pure.

A session's id is a secret that only the browser and this table know; it is drawn anew at each sign-in, so an id that
somebody planted before is worth nothing after. A session holds the credentials of each cluster that its user has
signed in to: they make the connections.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla_console.clusters.credentials import Login


@dataclass(slots=True)
class Session:
    """One browser of one user.

    Attributes:
        begun_s, used_s: by a clock that does not jump.
        credentials: by cluster.
    """

    begun_s: float
    used_s: float
    credentials: dict[str, Login] = field(default_factory=dict)


class Sessions:
    """All sessions; the one that was not used for longest makes way for a new one.

    Attributes:
        on_end: told by cluster what a session was signed in with that has ended, whatever has ended it, or that has
            another sign-in in place of it.

    Args:
        sessions_max: how many there may be.
        idle_s: after which time without a request one ends.
        lifetime_s: after which time one ends.
        draw_id: returns a secret that nobody can guess.
    """

    def __init__(self, *, sessions_max: int, idle_s: float, lifetime_s: float, draw_id: Callable[[], str]) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._sessions_max = sessions_max
        self._idle_s = idle_s
        self._lifetime_s = lifetime_s
        self._draw_id = draw_id
        self.on_end: Callable[[Mapping[str, Login]], None] = lambda _: None

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: str | None, now_s: float) -> Session | None:
        """Return a session that goes on, and note that it is used."""
        if session_id is None or (found := self._sessions.get(session_id)) is None:
            return None
        if self._has_ended(found, now_s):
            self._end(session_id)
            return None
        found.used_s = now_s
        self._sessions.move_to_end(session_id)
        return found

    def goes_on(self, session_id: str | None, now_s: float) -> bool:
        """Return whether there is a session that goes on, which is not used by the question."""
        found = self._sessions.get(session_id) if session_id is not None else None
        return found is not None and not self._has_ended(found, now_s)

    def sign_in(self, former_id: str | None, credentials: Mapping[str, Login], now_s: float) -> str:
        """Return the id of a session in which a user is signed in to more clusters, by their names.

        Its lifetime is the former session's as long as it has a sign-in of that one.
        """
        former = self.find(former_id, now_s)
        before = former.credentials if former else {}
        kept = {name: each for name, each in before.items() if name not in credentials}
        # Or a role, once given, would last for as long as its user signs in to another cluster now and then.
        begun_s = former.begun_s if former and kept else now_s
        session = Session(begun_s, now_s, {**kept, **credentials})
        if former_id is not None:
            self._sessions.pop(former_id, None)
        session_id = self._draw_id()
        self._sessions[session_id] = session
        self.on_end({name: each for name, each in before.items() if name in credentials})
        while len(self._sessions) > self._sessions_max:
            self._end(next(iter(self._sessions)))
        return session_id

    def sign_out(self, session_id: str | None) -> Session | None:
        """End a session, and return it."""
        return self._end(session_id) if session_id is not None else None

    def end_over(self, now_s: float) -> None:
        """End the sessions whose time is over, as nobody may ask for them any more."""
        for session_id in [each for each, session in self._sessions.items() if self._has_ended(session, now_s)]:
            self._end(session_id)

    def has_login(self, cluster: str, login: Login) -> bool:
        """Return whether any session is signed in to a cluster with this; two of one user may be."""
        return any(session.credentials.get(cluster) == login for session in self._sessions.values())

    def _end(self, session_id: str) -> Session | None:
        ended = self._sessions.pop(session_id, None)
        if ended is not None:
            self.on_end(ended.credentials)
        return ended

    def _has_ended(self, session: Session, now_s: float) -> bool:
        return now_s - session.used_s > self._idle_s or now_s - session.begun_s > self._lifetime_s
