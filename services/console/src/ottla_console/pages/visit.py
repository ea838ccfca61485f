"""What a page knows of the request that it answers: cluster, user, form, and how to ask and to act.

Every page is `async def page(visit: Visit) -> Response`. It asks its cluster by `visit.watch` (what is kept for
seconds) or `visit.ask` (a question that blocks, in a thread), makes a view model of the answers by a pure function of
`views/`, and returns `visit.render(template, …)`. What changes something goes through `visit.act`.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ottla_console.access.actions import Action, Actions
from ottla_console.access.form_tokens import FormTokens
from ottla_console.access.notices import Notices
from ottla_console.access.roles import role_of_action, why_not
from ottla_console.access.sessions import Session, Sessions
from ottla_console.access.sign_in_brake import SignInBrake
from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.cluster_kit import ANSWER_TIMEOUT_S, ClusterKit
from ottla_console.clusters.cluster_watch import ClusterWatch
from ottla_console.clusters.credentials import Login
from ottla_console.clusters.movements import Movements
from ottla_console.clusters.topic_tail import Tails
from ottla_console.clusters.verifications import Verifications
from ottla_console.clusters.watches import Watches
from ottla_console.config.cluster_settings import ClusterSettings
from ottla_console.openid.sign_in import OpenIdSignIn
from ottla_console.views.cluster_events import ActionDone
from ottla_operations.errors import OperationError
from ottla_operations.records.record_masking import Mask, Masking

THEMES: Final = ("system", "light", "dark")
THEME_COOKIE: Final = "ottla-theme"
FIELDS_MAX: Final = 2000
ROLE_PREFIX: Final = "role:"
"""With which roles are among those who are exempt from a rule of masking."""
Result = TypeVar("Result")


class BadForm(OperationError):
    """A form, or an address, has something in it that cannot be used; the message says what."""


class NotFound(OperationError):
    """There is nothing at an address."""


class SignInNeeded(Exception):
    """A page shows a cluster to which the user has not signed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """What all pages share.

    Attributes:
        clusters: those that are shown, by name.
        cookie: the name of the session's cookie.
        is_secure: whether browsers reach the console by TLS alone, so that cookies go no other way.
        openid: the OpenID provider that signs users in; None without one.
    """

    clusters: Mapping[str, ClusterSettings]
    templates: Environment
    watches: Watches
    movements: Movements
    verifications: Verifications
    threads: BoundedThreads
    sessions: Sessions
    brake: SignInBrake
    tokens: FormTokens
    notices: Notices
    actions: Actions
    tails: Tails
    masking: Masking
    cookie: str
    is_secure: bool
    openid: OpenIdSignIn | None = None

    def end_logins(self, logins: Mapping[str, Login]) -> None:
        """Give back what sessions were signed in with that have ended: tokens, and the connections of nobody else."""
        for name, login in logins.items():
            login.end()
            if not self.sessions.has_login(name, login):
                self.watches.end(self.clusters[name], login)

    def end_over(self, now_s: float) -> None:
        """End the sessions whose time is over, and connections that nobody has used for long."""
        self.sessions.end_over(now_s)
        self.watches.make_room(now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request.

    Attributes:
        console: what all pages share.
        request: as Starlette has it.
        session_id: of the user who is signed in, or None.
        session: likewise.
        form: the fields of a posted form.
        section: the entry of the navigation that is marked.
    """

    console: Console
    request: Request
    session_id: str | None = None
    session: Session | None = None
    form: Mapping[str, str] = field(default_factory=dict)
    section: str = ""

    @property
    def cluster(self) -> ClusterSettings:
        """The cluster that the address names.

        Raises:
            NotFound: there is none of this name.
        """
        name = self.request.path_params["cluster"]
        if name not in self.console.clusters:
            raise NotFound(f"the console shows no cluster {name}; its setting clusters names those that it shows")
        return self.console.clusters[name]

    @property
    def credentials(self) -> Login | None:
        """What the user has signed in to the cluster with; None where nobody has to.

        Raises:
            SignInNeeded: the user has not signed in, or the token has ended.
        """
        return self.credentials_of(self.cluster)

    def credentials_of(self, settings: ClusterSettings) -> Login | None:
        """Return what the user has signed in to any cluster with; as `credentials`."""
        if not settings.needs_sign_in:
            return None
        if not self.is_signed_in(settings):
            raise SignInNeeded
        assert self.session is not None, "it has the credentials"
        return self.session.credentials[settings.name]

    def is_signed_in(self, settings: ClusterSettings) -> bool:
        """Whether the user has signed in to a cluster, or does not need to."""
        if not settings.needs_sign_in:
            return True
        found = self.session.credentials.get(settings.name) if self.session is not None else None
        return found is not None and not found.has_ended

    def why_not(self, action: str) -> str | None:
        """Return why the user's role does not allow an action; None where it does, or where others decide."""
        credentials = self.credentials
        if credentials is None or not credentials.is_limited:
            return None
        return why_not(credentials.user, credentials.role, role_of_action(action), action)

    def may(self, action: str) -> bool:
        """Whether pages offer an action; its effect is guarded by `act`."""
        return not self.console.actions.read_only and self.why_not(action) is None

    @property
    def user(self) -> str:
        """Who has signed in to the cluster; empty where nobody has to."""
        credentials = self.credentials
        return "" if credentials is None else credentials.user

    def mask(self, topic: str) -> Mask:
        """Return what of a topic's messages is masked for the user; all of them pass through it."""
        credentials = self.credentials
        # A user who is called like a role has not got it.
        who = [] if credentials is None or credentials.user.startswith(ROLE_PREFIX) else [credentials.user]
        if credentials is not None and credentials.role is not None:
            who.append(f"{ROLE_PREFIX}{credentials.role.title}")
        return self.console.masking.of(self.cluster.name, topic, who)

    @property
    def watch(self) -> ClusterWatch:
        """What is kept of the cluster for this user."""
        return self.console.watches.of(self.cluster, self.credentials)

    async def ask(self, question: Callable[[ClusterKit], Result], *, within_s: float = ANSWER_TIMEOUT_S) -> Result:
        """Return the cluster's answer to a question that blocks.

        Raises:
            OperationError: it does not answer in time, or refuses.
        """
        return await self.watch.kit.ask(question, within_s=within_s)

    async def act(
        self,
        name: str,
        target: str,
        effect: Callable[[], Awaitable[Result]],
        *,
        needed: str | None = None,
        forbidden: str | None = None,
        **details: Any,
    ) -> Result:
        """Have an effect, guarded and audited; what is kept of the cluster is asked for anew afterwards.

        Args:
            name: of the action, such as ``topic.delete``.
            target: to what it is done.
            effect: does it.
            needed: what the form's field `confirm` has to have; None where it asks for nothing.
            forbidden: why the console's settings do not allow it to this user; None where they do.
            details: more for the audit record; no secrets.
        """
        action = Action(
            name=name,
            target=target,
            user=self.user,
            cluster=self.cluster.name,
            confirmation=self.form.get("confirm"),
            needed=needed,
            forbidden=self.why_not(name) or forbidden,
            details=details,
        )
        began_s = time.time()
        try:
            result = await self.console.actions.carry_out(action, effect)
        finally:
            self.watch.forget()
        self.watch.events.note_action(ActionDone(name, target, self.user, began_s))
        return result

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the address."""
        return self.request.query_params.get(name, default)

    def address(self, *segments: str, **parameters: str) -> str:
        """Return the address of a page of this cluster."""
        return cluster_address(self.cluster.name, *segments, **parameters)

    def render(self, template: str, *, status: int = 200, **model: Any) -> Response:
        """Return a page.

        Args:
            template: a file of `templates/`.
            status: of the answer.
            model: what the template shows.
        """
        return HTMLResponse(self.text(template, **model), status, headers={"cache-control": "no-store"})

    def text(self, template: str, **model: Any) -> str:
        """Return what a template makes of a model."""
        return self.console.templates.get_template(template).render(**self._frame(), **model)

    def redirect(self, address: str, *, notice: str | None = None) -> Response:
        """Send the browser on, after a form; the next page shows a sentence."""
        if notice is not None:
            joint = "&" if "?" in address else "?"
            address = f"{address}{joint}notice={self.console.notices.put(notice)}"
        return RedirectResponse(address, 303)

    def _frame(self) -> dict[str, Any]:
        name = self.request.path_params.get("cluster")
        cluster = self.console.clusters.get(name) if name else None
        theme = self.request.cookies.get(THEME_COOKIE, THEMES[0])
        signed_in = self.session.credentials if self.session else {}
        login = signed_in.get(cluster.name) if cluster else None
        return {
            "visit": self,
            "cluster": cluster,
            "clusters": list(self.console.clusters.values()),
            "section": self.section,
            "user": login.user if login is not None else "",
            "role": login.role.title if login is not None and login.role is not None else "",
            "may": self.may if cluster and self.is_signed_in(cluster) else _may_nothing,
            "theme": theme if theme in THEMES else THEMES[0],
            "themes": THEMES,
            "token": self.console.tokens.token_of(self.session_id),
            "read_only": self.console.actions.read_only,
            "notice": self.console.notices.take(self.query("notice") or None),
            "path": self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else ""),
        }


def _may_nothing(_action: str) -> bool:
    return False


def cluster_address(cluster: str, *segments: str, **parameters: str) -> str:
    """Return the address of a page of a cluster; parameters without a value are left out."""
    path = "/".join(["/clusters", *(quote(each, safe="") for each in (cluster, *segments))])
    query = urlencode({name: value for name, value in parameters.items() if value != ""})
    return f"{path}?{query}" if query else path


def parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form; of several of one name the last.

    Raises:
        BadForm: it is none, or has too many fields.
    """
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError:
        raise BadForm(f"the form cannot be read: it is no UTF-8, or has more than {FIELDS_MAX} fields") from None
    return dict(pairs)
