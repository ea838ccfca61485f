"""The console's process: `ottla-console --config FILE [--set key=value …]`."""

import asyncio
import gc
import secrets
import sys
import time
from contextlib import AsyncExitStack
from functools import partial

import structlog
import uvloop
from starlette.applications import Starlette
from starlette.middleware import Middleware

from ottla_console.access.actions import Actions
from ottla_console.access.audit_log import AuditLog
from ottla_console.access.form_tokens import FormTokens
from ottla_console.access.guard import RequestCounts, RequestGuard
from ottla_console.access.notices import Notices
from ottla_console.access.request_origin import allowed_hosts
from ottla_console.access.sessions import Sessions
from ottla_console.access.sign_in_brake import SignInBrake
from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.movements import Movements
from ottla_console.clusters.topic_tail import Tails
from ottla_console.clusters.verifications import Verifications
from ottla_console.clusters.watches import Watches
from ottla_console.config.console_config import PROGRAM, ConsoleConfig
from ottla_console.console_metrics import serve_metrics
from ottla_console.openid.sign_in import OpenIdSignIn
from ottla_console.pages.all_pages import NAVIGATION, VIEWS
from ottla_console.pages.routing import routes
from ottla_console.pages.static_files import static_files, static_route
from ottla_console.pages.templates import template_environment
from ottla_console.pages.visit import Console
from ottla_console.returned_memory import bound_heaps
from ottla_core.background import start_recurring
from ottla_core.errors import OttlaError
from ottla_core.lifecycle import run_service, wait_for_end
from ottla_core.observe.logs import configure_logs
from ottla_core.readiness import announce_ready
from ottla_core.rest.path_segments import EncodedPaths
from ottla_core.rest.server import RestServer

SESSION_COOKIE = "ottla-console"
SECURE_COOKIE = f"__Host-{SESSION_COOKIE}"
END_OVER_INTERVAL_S = 30.0

log = structlog.get_logger("console")


def main() -> int:
    """Run a console until SIGTERM; returns the exit code."""

    async def serve(stop: asyncio.Event) -> None:
        config = ConsoleConfig.load()
        configure_logs("console", level=config.log_level)
        await run_console(config, stop)

    bound_heaps()
    return run_service(PROGRAM, serve, uvloop.new_event_loop)


async def run_console(config: ConsoleConfig, stop: asyncio.Event) -> None:
    """Run a console until `stop` is set.

    Raises:
        RestError: a listener's address is taken.
        ConfigurationError: a reference in the settings leads nowhere, or the audit log cannot be written.
    """
    async with AsyncExitStack() as closing:
        threads = BoundedThreads(config.threads_max)
        closing.callback(threads.close)
        watches = Watches(threads)
        closing.callback(watches.close)
        movements = Movements()
        closing.push_async_callback(asyncio.to_thread, movements.close)
        verifications = Verifications()
        closing.push_async_callback(asyncio.to_thread, verifications.close)
        audit = AuditLog(config.audit_log_path)
        closing.callback(audit.close)
        rest = RestServer(config.listeners, config.tls)
        closing.push_async_callback(rest.close)
        tails = Tails()
        closing.callback(tails.ending.set)  # before the listeners close, which wait for answers under way
        counts = RequestCounts()
        files = static_files()
        provider = config.openid()
        openid = None if provider is None else OpenIdSignIn(provider, threads)
        if openid is not None:
            closing.callback(openid.close)
        console = Console(
            clusters=config.shown_clusters(),
            templates=template_environment(files, NAVIGATION),
            watches=watches,
            movements=movements,
            verifications=verifications,
            threads=threads,
            sessions=_sessions(config),
            brake=SignInBrake(),
            tokens=FormTokens(),
            notices=Notices(),
            masking=config.masking(),
            actions=Actions(audit, read_only=config.read_only),
            tails=tails,
            cookie=SECURE_COOKIE if config.is_secure else SESSION_COOKIE,
            is_secure=config.is_secure,
            openid=openid,
        )
        console.sessions.on_end = console.end_logins
        closing.callback(start_recurring("end of sessions", partial(_end_over, console)).cancel)
        for shown in console.clusters.values():
            if not shown.needs_sign_in:
                watches.keep(shown)
        guard = Middleware(
            RequestGuard,
            hosts=allowed_hosts(config.listeners, config.public_url),
            public_url=config.public_url,
            counts=counts,
        )
        paths = Middleware(EncodedPaths)
        await rest.serve(Starlette(routes=[static_route(files), *routes(console, VIEWS)], middleware=[guard, paths]))
        if config.shows_metrics:
            closing.callback(serve_metrics(config, console, counts, audit).close)
        gc.collect()
        gc.freeze()  # templates leave circles behind; they are found sooner where what stays is not looked through
        log.info("serving", urls=[str(each) for each in rest.bound], clusters=list(console.clusters))
        announce_ready()
        await wait_for_end(stop, _ended(rest))


async def _end_over(console: Console) -> None:
    """End again and again what is over, though nobody comes."""
    while True:
        await asyncio.sleep(END_OVER_INTERVAL_S)
        console.end_over(time.monotonic())


def _sessions(config: ConsoleConfig) -> Sessions:
    return Sessions(
        sessions_max=config.sessions_max,
        idle_s=config.session_idle_timeout_ms / 1000,
        lifetime_s=config.session_lifetime_ms / 1000,
        draw_id=partial(secrets.token_urlsafe, 32),
    )


async def _ended(rest: RestServer) -> OttlaError | None:
    return await rest.wait()


if __name__ == "__main__":
    sys.exit(main())
