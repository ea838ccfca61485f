"""One trial of mirrors: two clusters, workers and a link under load, the faults of a seed, healing, and the verdict.

The load writes to the source only, some of it in transactions. While faults happen, linked partitions are looked at
every few seconds: each replica of the target must be a beginning of the source's. When all is well again the load is
stopped, both kinds of mirrors have to come to the end of the source, everything is read on both sides, and then the
files are compared.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from uuid import UUID

from confluent_kafka import KafkaException

from ottla_core.errors import OttlaError
from tests.faults.access.access_operators import access_operators_of
from tests.faults.cluster import DISK_BYTES_MIN
from tests.faults.cluster_files import (
    Partitions,
    all_replica_problems,
    all_sequence_problems,
    writers_in_log,
)
from tests.faults.cluster_view import ClusterView, partition_versions
from tests.faults.fault import CLIENTS, Kind
from tests.faults.injection import Injector, possible_kinds
from tests.faults.mirrors.judgement import Noted, judge_everything
from tests.faults.mirrors.ledger_checker import Ledgers
from tests.faults.mirrors.ledger_load import MIRRORED_LEDGERS, LedgerLoad
from tests.faults.mirrors.linked_files import LinkedFiles
from tests.faults.mirrors.mirror_load import SOURCE_TOPICS, TARGET_TOPICS, MirrorLoad
from tests.faults.mirrors.mirror_operators import LinkOfTrial, MirrorOperators
from tests.faults.mirrors.operated_topics import GROWING, REBORN
from tests.faults.mirrors.schedule import make_mirror_schedule
from tests.faults.mirrors.sites import SOURCE_FACTOR, TARGET_FACTOR, Sites, SiteSettings, all_names
from tests.faults.mirrors.synced_groups import synced_group_problems
from tests.faults.mirrors.target_progress import COPIED, LINKED, TargetProgress
from tests.faults.network import LoopbackNetwork, Network, open_network
from tests.faults.plan import Outcome, Plan
from tests.faults.reading import content_of, transactional_record_of
from tests.faults.state_history import state_problems
from tests.faults.topics import (
    COMMON_CONFIGS,
    COPIED_TOPICS,
    GROUP_LOAD_TOPIC,
    LEDGERS,
    LINKED_LEDGER,
    LINKED_TOPICS,
    PARTITIONS,
    SOURCE,
    TARGET,
    Keeps,
    LoadTopic,
    copy_name,
)
from tests.faults.transactions.transaction_history import Contents
from tests.faults.transactions.undecided import hanging_partitions
from tests.faults.trial import DISK_BYTES_PER_SECOND
from tests.support.eventually import NotInTime, eventually

FIRST_RECORDS = 200
CREATE_DEADLINE_S = 90.0
READY_DEADLINE_S = 120.0
IN_SYNC_DEADLINE_S = 120.0
CATCH_UP_DEADLINE_S = 120.0
SLOW_S = 10.0
"""Who takes longer is asked why."""
LOOK_EVERY_S = 3.0


def run_mirror_trial(plan: Plan) -> Outcome:
    """Runs a trial to its end, and removes all of it but the directory."""
    begun_s = time.monotonic()
    plan.directory.mkdir(parents=True)
    names = [*all_names(), CLIENTS]
    with ExitStack() as closing:
        network: Network = LoopbackNetwork(names) if plan.loopback else open_network(names)
        closing.callback(network.close)
        kinds = plan.kinds & (possible_kinds(network, is_root=os.geteuid() == 0) | {Kind.RECREATE, Kind.GROW})
        if network.can_fail:
            kinds |= plan.kinds & {Kind.OVERTAKE}
        schedule = plan.schedule or make_mirror_schedule(plan.seed, seconds=plan.seconds, kinds=kinds)
        (plan.directory / "schedule.txt").write_text(f"seed {plan.seed}\n{schedule}\n")
        settings = SiteSettings(
            programs=plan.programs,
            small_disks=schedule.targets_of(Kind.FULL_DISK),
            disk_bytes=max(DISK_BYTES_MIN, int(plan.seconds * DISK_BYTES_PER_SECOND)),
            secure=plan.secure,
            seed=plan.seed,
            exactly_once=plan.exactly_once,
        )
        sites = closing.enter_context(Sites(plan.directory, network, settings))
        outcome = Outcome(plan.seed, schedule, plan.directory, command_of(plan))
        try:
            _MirrorTrial(plan, network, sites, outcome).run()
        except (AssertionError, OSError, KafkaException) as error:
            outcome.problems.append(f"the trial came to an end early: {error}")
        outcome.problems += sites.problems()
    outcome.took_s = time.monotonic() - begun_s
    return outcome


def command_of(plan: Plan) -> str:
    """See `Plan.command`."""
    return plan.command("--mirror", *(["--exactly-once"] if plan.exactly_once else []))


class _MirrorTrial:
    """The steps of a trial whose clusters and network exist."""

    def __init__(self, plan: Plan, network: Network, sites: Sites, outcome: Outcome) -> None:
        self._plan = plan
        self._network = network
        self._sites = sites
        self._outcome = outcome
        self._views = {SOURCE: ClusterView(sites.source), TARGET: ClusterView(sites.target)}
        self._link = LinkOfTrial(sites.source, sites.target)
        self._operators = MirrorOperators(sites.source, sites.target, self._link, seed=plan.seed)
        self._access = {
            cluster.members.site: access_operators_of(cluster, seed=plan.seed) for cluster in sites.clusters
        }
        self._progress = TargetProgress(sites, self._link, self._operators)
        self._files = LinkedFiles(sites.source, sites.target)
        self._looked_s = 0.0
        self._linked_names: Mapping[UUID, str] = {}
        self._story = plan.directory / "story.txt"

    def run(self) -> None:
        self._tell("start")
        self._start()
        try:
            with self._load() as load, self._ledger_load() as ledgers:
                self._wait_for_records(load, "records flow")
                ledgers.wait_for_commits("transactions are committed")
                self._tell("faults")
                for access in self._access.values():
                    access.begin()
                injector = Injector(self._sites, self._network, self._operators, None, self._tell)
                injector.carry_out(self._outcome.schedule, lambda: self._look(load, ledgers))
                self._tell("healing")
                noted = self._heal(load, ledgers)
        finally:
            self._operators.close()
            for access in self._access.values():
                access.close()
        self._tell("comparing")
        partitions = {site: self._settled(view) for site, view in self._views.items()}
        leader_epochs = self._look_at_states()
        self._sites.stop()
        self._compare(noted, partitions)
        self._outcome.problems += self._files.epoch_problems(leader_epochs)
        self._tell("end")

    def _start(self) -> None:
        for cluster in self._sites.clusters:
            cluster.start()
        source = self._views[SOURCE]
        for_groups = LoadTopic(GROUP_LOAD_TOPIC, Keeps.EVERYTHING, {})
        loaded = [*SOURCE_TOPICS, *LEDGERS, for_groups, *self._access[SOURCE].topics]
        source.create_topics(loaded, factor=SOURCE_FACTOR, min_in_sync=1)
        operated = [LoadTopic(name, Keeps.EVERYTHING, {}) for name in (*REBORN, *GROWING)]
        source.create_topics(operated, factor=SOURCE_FACTOR, partitions=1, min_in_sync=1)
        assert not (missing := source.wait_in_sync(within_s=CREATE_DEADLINE_S)), missing
        self._views[TARGET].create_topics(self._access[TARGET].topics, factor=TARGET_FACTOR)
        for access in self._access.values():
            access.prepare()
        self._operators.write_first()
        self._link.create_link(settings=self._link.settings)
        operated = [LoadTopic(each.linked, Keeps.EVERYTHING, {}) for each in (REBORN, GROWING)]
        for topic in (*LINKED_TOPICS, LINKED_LEDGER, *operated):
            configs = {**COMMON_CONFIGS, **topic.configs}
            self._link.follow(topic.name, replication_factor=TARGET_FACTOR, configs=configs)
        self._sites.start_workers()
        wanted = {*TARGET_TOPICS, *MIRRORED_LEDGERS, copy_name(GROUP_LOAD_TOPIC)}
        eventually(
            lambda: wanted <= self._views[TARGET].topics(), "all topics are at the target", within_s=CREATE_DEADLINE_S
        )
        assert not (missing := self._views[TARGET].wait_in_sync(within_s=CREATE_DEADLINE_S)), missing

    def _load(self) -> MirrorLoad:
        return MirrorLoad(
            self._plan.directory / "load",
            self._network,
            source=self._sites.source,
            target=self._sites.target,
            seed=self._plan.seed,
        )

    def _ledger_load(self) -> LedgerLoad:
        return LedgerLoad(
            self._plan.directory / "load-in-transactions",
            self._network,
            source=self._sites.source,
            target=self._sites.target,
            seed=self._plan.seed,
        )

    def _wait_for_records(self, load: MirrorLoad, what: str) -> None:
        """Waits until more is acknowledged at the source, and more is seen at the target."""
        acknowledged = load.produced().acknowledged_count
        seen = load.seen(TARGET).seen_count
        eventually(
            lambda: (
                load.produced().acknowledged_count > acknowledged + FIRST_RECORDS
                and load.seen(TARGET).seen_count > seen + FIRST_RECORDS
            ),
            what,
            within_s=CREATE_DEADLINE_S,
        )

    def _look(self, load: MirrorLoad, ledgers: LedgerLoad) -> None:
        load.check()
        ledgers.check()
        if time.monotonic() - self._looked_s > LOOK_EVERY_S:
            self._look_at_files()
            self._looked_s = time.monotonic()

    def _look_at_files(self) -> None:
        """Compares linked partitions, whatever their brokers are doing."""
        if len(self._outcome.problems) < 10:
            self._outcome.problems += self._files.problems(self._equal_partitions())

    def _equal_partitions(self) -> Iterator[tuple[str, int]]:
        """The linked partitions that have equal batches on both sides at all times."""
        for topic in LINKED_TOPICS:
            if topic.keeps is not Keeps.LAST_VALUES:
                yield from ((topic.name, index) for index in range(PARTITIONS))
        yield from ((LINKED_LEDGER.name, index) for index in range(PARTITIONS))
        yield from self._operators.partitions_of(GROWING.linked)

    def _heal(self, load: MirrorLoad, ledgers: LedgerLoad) -> Noted:
        """Waits until all is well and copied, stops the load, and reads both sides."""
        problems = self._outcome.problems
        self._sites.wait_ready(within_s=READY_DEADLINE_S)
        self._operators.finish()
        problems += self._operators.problems
        self._linked_names = self._operators.ids_at_target(LINKED)
        for view in self._views.values():
            missing = view.wait_in_sync(within_s=IN_SYNC_DEADLINE_S)
            problems += [f"not in sync {IN_SYNC_DEADLINE_S:g} s after healing: {each}" for each in missing]
        for site, access in self._access.items():
            problems += [f"{site}: {problem}" for problem in access.finish(self._views[site])]
        self._wait_for_records(load, "records flow after healing")
        ledgers.wait_for_commits("transactions are committed after healing")
        self._tell("stopping the load")
        problems += load.stop_groups()
        load.stop_producers()
        ledgers.stop_writers()
        problems += [f"source: {each}" for each in hanging_partitions(self._views[SOURCE], _names(LEDGERS))]
        self._tell("catching up")
        begun_s = time.monotonic()
        try:
            with suppress(NotInTime):
                eventually(lambda: not self._behind(), "the target has everything soon", within_s=SLOW_S)
            self._progress.describe(self._plan.directory / "status.json")
            eventually(lambda: not self._behind(), "the target has everything", within_s=CATCH_UP_DEADLINE_S)
        except NotInTime:
            problems += [f"{CATCH_UP_DEADLINE_S:g} s after the last record: {each}" for each in self._behind()[:10]]
        self._outcome.counts["ms to catch up"] = round(1000 * (time.monotonic() - begun_s))
        problems += self._progress.link_state_problems()
        problems += synced_group_problems(self._sites, within_s=CATCH_UP_DEADLINE_S)
        problems += [f"target: {each}" for each in hanging_partitions(self._views[TARGET], MIRRORED_LEDGERS)]
        self._tell("reading")
        noted = self._read(load, ledgers)
        load.stop_readers()
        problems += [*load.refusals(), *ledgers.refusals()]
        return noted

    def _behind(self) -> list[str]:
        self._sites.look()
        try:
            source, target = (self._views[site].settled(of=COPIED | LINKED) for site in (SOURCE, TARGET))
            return self._progress.behind(source, target)
        except (KafkaException, OttlaError) as error:
            return [f"nothing is known: {error}"]

    def _read(self, load: MirrorLoad, ledgers: LedgerLoad) -> Noted:
        operated = list(self._operators.written)
        copied = [(copy_name(topic), index) for topic, index in operated if topic in (REBORN.copied, GROWING.copied)]
        linked = [(topic, index) for topic, index in operated if topic in (REBORN.linked, GROWING.linked)]
        target = self._views[TARGET]
        return Noted(
            produced=load.produced(),
            readers={site: load.seen(site) for site in (SOURCE, TARGET)},
            source=self._views[SOURCE].read_everything([topic.name for topic in SOURCE_TOPICS]),
            target=target.read_everything(TARGET_TOPICS),
            operated=target.read_partitions([*copied, *linked], content_of),
            written=dict(self._operators.written),
            maps=self._progress.maps,
            ledgers=self._read_ledgers(ledgers),
        )

    def _read_ledgers(self, load: LedgerLoad) -> Ledgers:
        source, target = self._views[SOURCE], self._views[TARGET]
        committed = _transactional_records(target, MIRRORED_LEDGERS, "read_committed")
        load.stop_reader(committed)
        return Ledgers(
            written=load.written(),
            seen=load.seen(),
            source_committed=_transactional_records(source, _names(LEDGERS), "read_committed"),
            source_all=_transactional_records(source, _names(LEDGERS), "read_uncommitted"),
            target_committed=committed,
            target_all=_transactional_records(target, MIRRORED_LEDGERS, "read_uncommitted"),
        )

    def _look_at_states(self) -> dict[tuple[str, int], int]:
        """Looks at all that the clusters have decided; returns the leader epochs of linked partitions."""
        versions = {
            cluster.members.site: list(partition_versions(cluster.etcd_endpoints, cluster.etcdctl_options()))
            for cluster in self._sites.clusters
        }
        for site, of_site in versions.items():
            self._outcome.problems += [f"{site}: {problem}" for problem in state_problems(of_site)]
        linked = self._linked_names
        newest = {(state.topic_id, state.index): state.leader_epoch for _, state in versions[TARGET]}
        return {(linked[topic_id], index): epoch for (topic_id, index), epoch in newest.items() if topic_id in linked}

    def _settled(self, view: ClusterView) -> Partitions:
        """All partitions, as soon as each has a leader that answers."""

        def attempt() -> Partitions:
            try:
                return view.settled()
            except KafkaException as error:
                raise ConnectionError(str(error)) from error

        return eventually(attempt, "every partition is known", within_s=IN_SYNC_DEADLINE_S)

    def _compare(self, noted: Noted, partitions: Mapping[str, Partitions]) -> None:
        outcome, source, target = self._outcome, self._sites.source, self._sites.target
        for cluster, of_site in ((source, partitions[SOURCE]), (target, partitions[TARGET])):
            outcome.problems += all_replica_problems(cluster, of_site)
        outcome.problems += all_sequence_problems(source, partitions[SOURCE])
        # Linked topics are compared byte by byte; where retention has overtaken them sequences have gaps.
        copies = [copy_name(topic.name) for topic in COPIED_TOPICS]
        outcome.problems += all_sequence_problems(target, partitions[TARGET], topics=copies)
        self._look_at_files()
        writers = {
            SOURCE: writers_in_log(source, partitions[SOURCE]),
            TARGET: writers_in_log(target, partitions[TARGET]),
        }
        verdict = judge_everything(noted, partitions, writers)
        outcome.problems += verdict.problems
        if self._plan.exactly_once and (twice := verdict.counts["copied twice"]):
            outcome.problems.append(f"{twice} records were copied twice, though in transactions")
        outcome.counts |= {
            "acknowledged": noted.produced.acknowledged_count,
            "replicas compared with the source": self._files.looks,
            **dict(sorted(Counter(verdict.counts).items())),
            **{
                f"{site}: {what}": count
                for site, access in self._access.items()
                for what, count in access.told_counts().items()
            },
        }

    def _tell(self, what: str) -> None:
        with self._story.open("a") as story:
            story.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {what}\n")


def _names(topics: Iterable[LoadTopic]) -> list[str]:
    return [topic.name for topic in topics]


def _transactional_records(view: ClusterView, topics: Iterable[str], isolation: str) -> Contents:
    places = [(topic, index) for topic in topics for index in range(PARTITIONS)]
    return view.read_partitions(places, transactional_record_of, isolation=isolation)
