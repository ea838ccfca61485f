"""Campaign, lead, step down, campaign again: the life of a controller.

While it leads, `active` is the term's `ActiveController`; otherwise None, and the service refuses requests. A term
ends when the lease is lost, when another controller turns out to hold the election key, or when the loop is closed.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

import structlog

from ottla_controller.active_controller import ActiveController
from ottla_controller.config import ControllerConfig
from ottla_controller.fenced_writer import FencedWriter
from ottla_controller.partition_change import TopicRules
from ottla_controller.replica_controller import ReplicaController
from ottla_controller.topics import TopicDefaults
from ottla_core.background import start_recurring, start_vital
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.lease import LeaseSession
from ottla_core.cluster.membership.election import Election, Leadership
from ottla_core.cluster.state.codec import encode_controller
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import NotController, OttlaError, RequestTimedOut
from ottla_core.scram import BootstrapUser

STATE_TIMEOUT_S = 10.0
RETRY_DELAY_S = 0.5
USERS_RETRY_DELAY_S = 5.0

log = structlog.get_logger("controller")


class LeadershipLoop:
    """Runs one controller's terms."""

    def __init__(
        self,
        *,
        config: ControllerConfig,
        etcd: EtcdClient,
        feed: ClusterStateFeed,
        session: LeaseSession,
        rpc_address: str,
    ) -> None:
        self._config = config
        self._etcd = etcd
        self._feed = feed
        self._key_space = KeySpace(config.cluster_name)
        self._election = Election(
            etcd,
            session,
            key=self._key_space.controller,
            value=encode_controller(config.node_id, rpc_address),
        )
        self._leadership: Leadership | None = None
        self._active: ActiveController | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> ActiveController | None:
        """The controller of the present term, or None while this process does not lead."""
        leads = self._leadership is not None and self._leadership.is_current()
        return self._active if leads else None

    def start(self) -> None:
        """Begin to campaign."""
        self._task = start_vital("leadership", self._run())

    async def close(self) -> None:
        """End the term, if there is one, so that another controller can begin at once."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._wait_for_recovery()
            leadership = await self._election.campaign()
            log.info("leading", id=self._config.node_id, epoch=leadership.epoch)
            try:
                await self._lead(leadership)
            except OttlaError as error:
                log.warning("term ended by a failure", epoch=leadership.epoch, error=str(error))
                await asyncio.sleep(RETRY_DELAY_S)
            finally:
                self._leadership = self._active = None
                if leadership.is_current():
                    await self._election.resign(leadership)
            log.warning("not leading any more", epoch=leadership.epoch)

    async def _wait_for_recovery(self) -> None:
        """Return when the state is not being recovered; in one of which a part is missing, nothing can be decided."""
        is_told = False
        while self._feed.state.recovery.is_unfinished:
            if not is_told:
                log.error(
                    "not campaigning: a recovery of the cluster's state is under way or was cut short; "
                    "wait for it, or run the same `ottla cluster recover` or `ottla cluster restore` again"
                )
                is_told = True
            with contextlib.suppress(RequestTimedOut):
                await self._feed.wait_for(lambda state: not state.recovery.is_unfinished, STATE_TIMEOUT_S)

    async def _lead(self, leadership: Leadership) -> None:
        """Lead until the term is over.

        Raises:
            OttlaError: the term could not begin, for example because etcd fails.
        """
        changed = asyncio.Event()

        def look(_former: ClusterState, new: ClusterState) -> None:
            changed.set()
            if new.revision >= leadership.epoch and (
                new.controller is None or new.controller.epoch != leadership.epoch
            ):
                leadership.give_up()

        unsubscribe = self._feed.subscribe(look)
        duties: list[asyncio.Task[None]] = []
        try:
            # From this revision on nobody else writes, so the state read here is complete.
            await self._feed.wait_for_revision(leadership.epoch, STATE_TIMEOUT_S)
            if self._feed.state.recovery.is_unfinished:
                raise NotController("the cluster's state is being recovered")
            active = ActiveController(
                etcd=self._etcd,
                feed=self._feed,
                writer=FencedWriter(self._etcd, self._key_space, leadership),
                key_space=self._key_space,
                defaults=TopicDefaults(
                    partition_count=self._config.num_partitions,
                    replication_factor=self._config.default_replication_factor,
                ),
                default_rules=TopicRules(
                    min_insync_replicas=self._config.min_insync_replicas,
                    allows_unclean=self._config.unclean_leader_election_enable,
                ),
                group_limits=self._config.consumer_group_limits(),
            )
            await active.begin_term()
            self._leadership, self._active = leadership, active
            changed.set()
            duties.append(start_recurring("elections and assignments", partial(_attend_to_changes, active, changed)))
            interval_s = self._config.delegation_token_expiry_check_interval_ms / 1000
            duties.append(start_recurring("expired tokens", partial(_delete_ended_tokens, active, interval_s)))
            if self._config.scram_bootstrap_users:
                duties.append(
                    start_recurring(
                        "bootstrap users", partial(_create_users, active, self._config.scram_bootstrap_users)
                    )
                )
            if self._config.auto_leader_rebalance_enable:
                rebalancing = partial(
                    _rebalance_leaders,
                    active.replicas,
                    interval_s=self._config.leader_imbalance_check_interval_seconds,
                    imbalance_percentage=self._config.leader_imbalance_per_broker_percentage,
                )
                duties.append(start_recurring("preferred leaders", rebalancing))
            await leadership.wait_over()
        finally:
            unsubscribe()
            for duty in duties:
                duty.cancel()
            await asyncio.gather(*duties, return_exceptions=True)


async def _attend_to_changes(active: ActiveController, changed: asyncio.Event) -> None:
    """Look at the partitions' leaders and the shards' owners whenever the state has changed.

    Neither waits for the other to succeed, and nothing but the end of the term ends this: a controller that led on
    without it would leave every partition and shard as it is.
    """
    while True:
        await changed.wait()
        changed.clear()
        has_failed = False
        for attend in (active.replicas.elect_leaders, active.assign_shards):
            try:
                await attend()
            except NotController:
                return
            except OttlaError as error:
                log.error("electing leaders or assigning shards failed; trying again", error=str(error))
                has_failed = True
            except Exception:
                log.exception("electing leaders or assigning shards failed unexpectedly; trying again")
                has_failed = True
        if has_failed:
            changed.set()
            await asyncio.sleep(RETRY_DELAY_S)


async def _delete_ended_tokens(active: ActiveController, interval_s: float) -> None:
    """Delete delegation tokens that have expired from time to time, until the term ends."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await active.logins.delete_ended_tokens()
        except NotController:
            return
        except OttlaError as error:
            log.error("expired delegation tokens are not deleted; trying again later", error=str(error))


async def _create_users(active: ActiveController, users: Sequence[BootstrapUser]) -> None:
    """Give a cluster that has no users those of the settings, and come again until that is done."""
    while True:
        try:
            await active.logins.create_first_users(users)
        except NotController:
            return
        except OttlaError as error:
            log.error("users of scram.bootstrap.users are not created; trying again", error=str(error))
            await asyncio.sleep(USERS_RETRY_DELAY_S)
        else:
            return


async def _rebalance_leaders(replicas: ReplicaController, *, interval_s: float, imbalance_percentage: int) -> None:
    """Bring leaderships back to the preferred leaders from time to time, until the term ends."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await replicas.rebalance_leaders(imbalance_percentage)
        except NotController:
            return
        except OttlaError as error:
            log.error("electing preferred leaders failed; trying again later", error=str(error))
        except Exception:
            log.exception("electing preferred leaders failed unexpectedly; trying again later")
