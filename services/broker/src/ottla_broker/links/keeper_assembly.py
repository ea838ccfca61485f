"""Puts together what keeps links in step with their sources."""

from ottla_broker.config import BrokerConfig
from ottla_broker.links.link_fetchers import LinkFetchers
from ottla_broker.links.link_keeper import FollowingClusterGroups, LinkKeeper, Registration
from ottla_broker.links.link_keeper_pool import LinkKeeperPool
from ottla_broker.links.link_settings import resolver
from ottla_broker.links.link_statuses import LinkStatuses
from ottla_broker.tls.connecting import PeerAccess
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.state.model import ClusterState, Link
from ottla_core.cluster.view.feed import ClusterStateFeed


def start_keepers(
    config: BrokerConfig,
    *,
    feed: ClusterStateFeed,
    membership: Registration,
    controller: ControllerClient,
    links: LinkFetchers,
    groups: FollowingClusterGroups,
    clock: Clock,
    peers: PeerAccess,
) -> tuple[LinkStatuses, LinkKeeperPool]:
    """Keep those links in step that the cluster state says are this broker's to keep, now and later."""

    def opened(link: Link) -> LinkKeeper:
        return LinkKeeper(
            link,
            broker_id=config.node_id,
            registration=membership,
            state=lambda: feed.state,
            controller=controller,
            groups=groups,
            statuses=statuses,
            resolve=resolver(config.config_providers),
            clock=clock,
        )

    keepers = LinkKeeperPool(config.node_id, opened)
    statuses = LinkStatuses(
        config,
        state=lambda: feed.state,
        partitions=links.statuses,
        keepings=keepers.keepings,
        look_now=keepers.look_now,
        peers=peers,
    )
    feed.subscribe(keepers.follow)
    keepers.follow(ClusterState(), feed.state)
    return statuses, keepers
