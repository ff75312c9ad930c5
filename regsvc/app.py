"""The wiring: who gets whom. Imported by `companion.py` and tests only."""

import dataclasses
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from plugin_bridge.authme_config import AuthMeConfig
from plugin_bridge.hashers import PasswordHasher, UnusableHashing, make_password_hasher
from plugin_bridge.rules import DEFAULT_NAME_RULE, DEFAULT_PASSWORD_RULE, NameRule, PasswordRule, compile_java_pattern
from plugin_bridge.server_files import OpsFile, find_uuid
from regsvc import clock
from regsvc.accounts import Accounts
from regsvc.admin_users import UserList
from regsvc.audit import Audit
from regsvc.client_address import is_any_of
from regsvc.clock import Clock
from regsvc.config import Config, ConfigError
from regsvc.db import Worker
from regsvc.delivery import MailDelivery
from regsvc.derived import DerivedSecrets
from regsvc.email_address import EmailPolicy, parse_email
from regsvc.figures import ProcessFigures, QueueFigures
from regsvc.health import Health
from regsvc.home import Home, check_recorded_home, read_authme, resolve_home, settle_in
from regsvc.i18n import load_translations
from regsvc.input_rules import BedrockNames, InputRules
from regsvc.keys import Keys, fingerprint, load_keys
from regsvc.links import PasswordLinks
from regsvc.login_delays import KnownClients, LoginDelays
from regsvc.login_limits import LoginLimits
from regsvc.logins import Logins
from regsvc.loop_lag import LoopLag
from regsvc.mail_desk import MailDesk
from regsvc.mail_renderer import MailRenderer
from regsvc.mail_templates import load_mail_templates
from regsvc.mailers import (
    AuthMeMailAccount,
    Mailer,
    MailPostponed,
    MailRefused,
    MailServerAway,
    make_mailer,
)
from regsvc.mails import Mails
from regsvc.metrics import Metrics
from regsvc.migrator import migrate
from regsvc.models import bind_models
from regsvc.outbox import Outbox
from regsvc.password_changes import PasswordChanges
from regsvc.passwords import HashPool, Passwords
from regsvc.patterns import compile_pattern
from regsvc.ratelimit import DurableLimits, MemoryLimits
from regsvc.registration import MailLimits, Registration, RegistrationPolicy
from regsvc.release import Release
from regsvc.services import Services
from regsvc.status_limits import StatusLimits
from regsvc.sync.agreements import Agreements
from regsvc.sync.lease import SyncLease, place_of
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Policy
from regsvc.sync.report import SyncReport
from regsvc.sync.run import Sync
from regsvc.sync.service import SyncService
from regsvc.sync.steps import World
from regsvc.tokens import Tokens
from regsvc.transitions import Transitions
from regsvc.verification import VerificationCodes

_BEFORE_EVERYTHING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Ground:
    """What everything else stands on: the database, AuthMe's table, the keys, the operators. Nothing is open yet."""

    config: Config
    authme: AuthMeConfig | None
    home: Home
    keys: Keys
    ops: OpsFile
    now: Clock

    def level_of(self, username: str) -> int:
        """How high an operator; 0 for none, or one below `auth.min_operator_level`."""
        level = self.ops.level_of(username)
        return level if level >= self.config.auth.min_operator_level else 0

    def is_operator(self, username: str) -> bool:
        """Whether the name is an operator's at this moment."""
        return self.level_of(username) > 0

    def prepare(self) -> list[str]:
        """Bring the database to our tables and settle in it. Blocking.

        Returns the migrations that were applied. Raises `SchemaTooNew`, `WrongHome`, and what the database raises.
        """
        self.home.database.connect(reuse_if_open=True)
        applied = migrate(self.home.database, self.now)
        settle_in(self.config.server.state_dir, self.home, fingerprint(self.keys.installation_key), self.now)
        return applied


def lay_ground(config: Config, now: Clock = clock.now) -> Ground:
    """Read what the config points at. Raises `ConfigError`, `UnusableKey`, `WrongHome`."""
    authme = read_authme(config)
    home = resolve_home(config, authme)
    keys = load_keys(config.auth, config.server.state_dir)
    check_recorded_home(config.server.state_dir, home)
    bind_models(home.database)
    return Ground(config, authme, home, keys, OpsFile(config.game.ops_path, config.game.operators), now)


@dataclass(frozen=True)
class MailRoom:
    """Everything about e-mail: what is promised, how it is written, who delivers it."""

    mailer: Mailer
    outbox: Outbox
    codes: VerificationCodes
    links: PasswordLinks
    renderer: MailRenderer
    delivery: MailDelivery
    mails: Mails
    limits: MailLimits


def _open_mail_room(ground: Ground, worker: Worker, base_url: str, metrics: Metrics) -> MailRoom:
    config, now = ground.config, ground.now
    secrets = DerivedSecrets(ground.keys.installation_key)
    mailer = make_mailer(config.mail, _authme_mail(ground.authme))
    links = PasswordLinks(secrets, now)
    outbox = Outbox(now, config.mail.max_attempts)
    codes = VerificationCodes(
        secrets,
        now,
        valid=config.verification.code_valid,
        max_tries=config.verification.max_tries,
        digits=config.verification.code_digits,
    )
    renderer = MailRenderer(
        load_mail_templates(config.mail.templates),
        codes,
        links,
        outbox,
        now,
        sender=mailer.sender,
        server_name=config.server.name,
        base_url=base_url,
    )
    desk = MailDesk(ground.home.database, outbox, codes, renderer, on_finished=metrics.count_mail)
    delivery = MailDelivery(worker, desk, mailer)
    mails = Mails(outbox, config.server.language, is_available=mailer.is_available, wake=delivery.wake)
    limits = MailLimits(
        config.verification.limits_per_address,
        config.verification.limits_per_client,
        config.verification.limits_total,
    )
    return MailRoom(mailer, outbox, codes, links, renderer, delivery, mails, limits)


@dataclass(frozen=True)
class HashRoom:
    """Everything about passwords: how they are hashed, where, and which ones are taken."""

    pool: HashPool
    passwords: Passwords
    rules: InputRules
    names: NameRule
    password_rule: PasswordRule
    algorithms: frozenset[str]


def _open_hash_room(ground: Ground) -> HashRoom:
    config = ground.config
    hasher = _hasher(ground.authme)
    names, password_rule = _rules(config, ground.authme)
    rules = InputRules(
        names=names,
        passwords=password_rule,
        bedrock=BedrockNames(config.bedrock.enabled, compile_pattern(config.bedrock.username_regex)),
        reserved_names=config.registration.reserved_names,
        operators=ground.ops.names,
        password_mode=config.registration.password,
    )
    algorithms = frozenset(hasher.algorithms) if hasher else frozenset()
    pool = HashPool(_hash_threads(config), config.auth.max_waiting_hashes)
    return HashRoom(pool, Passwords(hasher), rules, names, password_rule, algorithms)


@dataclass(frozen=True)
class Desk:
    """Who is let in and what is written down of it."""

    audit: Audit
    tokens: Tokens
    known_clients: KnownClients
    limits: DurableLimits


def _open_desk(ground: Ground) -> Desk:
    auth, now = ground.config.auth, ground.now
    audit = Audit(now)
    tokens = Tokens(
        signing=ground.keys.signing,
        now=now,
        user_lifetime=auth.user_token,
        admin_lifetime=auth.admin_token,
        admin_idle=auth.admin_idle,
        is_operator=ground.is_operator,
        audit=audit,
    )
    return Desk(audit, tokens, KnownClients(now), DurableLimits(now))


class App:
    """All services of one process, wired. `base_url` is where players reach it."""

    def __init__(self, ground: Ground, base_url: str) -> None:
        config, now = ground.config, ground.now
        database, players = ground.home.database, ground.home.players
        self.ground = ground
        self.worker = Worker(database, config.database.threads, also_close=players.close)
        self.sync_worker = Worker(database, 1, "sync", also_close=players.close)
        self.translations = load_translations()
        self.metrics, self.loop_lag = Metrics(), LoopLag()
        self.mail_room = mail_room = _open_mail_room(ground, self.worker, base_url, self.metrics)
        self.hash_room = hash_room = _open_hash_room(ground)
        self.metrics.watch(ProcessFigures(), QueueFigures(self.worker, hash_room.pool, self.loop_lag))
        self.desk = desk = _open_desk(ground)

        agreements = Agreements(database, now)
        transitions = Transitions(desk.audit, mail_room.mails, now)
        self.reconciler = Reconciler(
            database,
            World(
                players,
                agreements,
                transitions,
                desk.audit,
                now,
                partial(find_uuid, config.game.server_properties_path),
            ),
            _policy(config, players.is_enabled, hash_room.algorithms),
            ground.ops.names,
        )
        self.sync = SyncService(
            self.sync_worker,
            Sync(database, players, self.reconciler, desk.audit, config.sync.max_changes, now),
            SyncLease(database, place_of(config.server.state_dir)),
        )
        self.sync.on_finished = self._follow_run
        self.release = Release(database, players, agreements)
        self.accounts = Accounts(
            database=database,
            reconciler=self.reconciler,
            transitions=transitions,
            tokens=desk.tokens,
            links=mail_room.links,
            audit=desk.audit,
            level_of=ground.level_of,
            now=now,
        )
        self.login_limits = LoginLimits(MemoryLimits(now), LoginDelays(now), config.auth.login_limits)
        self.logins = self._wire_logins()
        self.registration = self._wire_registration(transitions)
        self.password_changes = self._wire_password_changes()
        self.services = self._wire_services()

    def _follow_run(self, report: SyncReport) -> None:
        self.metrics.count_sync(report)
        self.mail_room.mails.wake()

    def _wire_logins(self) -> Logins:
        ground, desk = self.ground, self.desk
        return Logins(
            database=ground.home.database,
            worker=self.worker,
            hash_pool=self.hash_room.pool,
            passwords=self.hash_room.passwords,
            reconciler=self.reconciler,
            limits=self.login_limits,
            known_clients=desk.known_clients,
            tokens=desk.tokens,
            audit=desk.audit,
            is_operator=ground.is_operator,
            now=ground.now,
        )

    def _wire_registration(self, transitions: Transitions) -> Registration:
        ground, config = self.ground, self.ground.config.registration
        return Registration(
            database=ground.home.database,
            worker=self.worker,
            hash_pool=self.hash_room.pool,
            passwords=self.hash_room.passwords,
            players=ground.home.players,
            reconciler=self.reconciler,
            transitions=transitions,
            codes=self.mail_room.codes,
            mails=self.mail_room.mails,
            limits=self.desk.limits,
            mail_limits=self.mail_room.limits,
            email_policy=EmailPolicy(
                config.email_domains, config.blocked_email_domains, accepts_aliases=config.email_aliases
            ),
            rules=self.hash_room.rules,
            policy=RegistrationPolicy(config.open, config.approval, config.reapply_after),
            audit=self.desk.audit,
            now=ground.now,
        )

    def _wire_password_changes(self) -> PasswordChanges:
        return PasswordChanges(
            database=self.ground.home.database,
            worker=self.worker,
            hash_pool=self.hash_room.pool,
            passwords=self.hash_room.passwords,
            accounts=self.accounts,
            logins=self.logins,
            registration=self.registration,
            links=self.mail_room.links,
            limits=self.desk.limits,
            mail_limits=self.mail_room.limits,
            mails=self.mail_room.mails,
            rules=self.hash_room.rules,
        )

    def _wire_services(self) -> Services:
        ground, http = self.ground, self.ground.config.http
        is_bridge_on = ground.home.players.is_enabled
        return Services(
            config=ground.config,
            worker=self.worker,
            translations=self.translations,
            tokens=self.desk.tokens,
            name_rule=self.hash_room.names,
            password_rule=self.hash_room.password_rule,
            is_authme_enabled=is_bridge_on,
            registration=self.registration,
            logins=self.logins,
            accounts=self.accounts,
            password_changes=self.password_changes,
            users=UserList(ground.now, is_bridge_on=is_bridge_on),
            audit=self.desk.audit,
            sync=self.sync,
            status_limits=StatusLimits(MemoryLimits(ground.now), http.status_limit, is_any_of(http.trusted_clients)),
            mails=self.mail_room.mails,
            health=Health(self.worker, self.mail_room.outbox, self.sync, ground.now, is_bridge_on=is_bridge_on),
            metrics=self.metrics,
        )

    def take_over(self, config: Config) -> None:
        """Go on with a config that differs in keys of `regsvc.reload.RELOADABLE` alone. On the event loop."""
        self.login_limits.login_limits = config.auth.login_limits
        self.services.status_limits.status_limit = config.http.status_limit
        self.registration.policy = dataclasses.replace(self.registration.policy, is_open=config.registration.open)
        self.services = dataclasses.replace(self.services, config=config)

    def open(self) -> None:
        """The database has our tables: rules may run."""
        self.worker.is_open = self.sync_worker.is_open = True

    async def send_test_mail(self, address: str) -> str | None:
        """Send a mail past the outbox. Returns what went wrong, None if nothing did. Raises `InvalidEmail`."""
        recipient = parse_email(address)
        language = self.ground.config.server.language
        message = self.mail_room.renderer.compose("mail_test", recipient, language, {})
        try:
            await self.mail_room.mailer.send(message, recipient)
        except (MailRefused, MailPostponed, MailServerAway) as error:
            return str(error)
        return None

    def purge_expired(self) -> None:
        """Remove what nobody can use any more. Blocking; each line is a statement of its own."""
        now = self.ground.now()
        self.desk.tokens.purge_expired()
        self.desk.known_clients.purge()
        self.desk.limits.purge(now - timedelta(days=2))
        self.mail_room.codes.purge_dead()
        self.mail_room.links.purge_dead()
        self.mail_room.outbox.purge_done(now - self.ground.config.retention.outbox)

    def close(self) -> None:
        """Let what runs on threads end, and close every connection. Blocking."""
        self.worker.close()
        self.sync_worker.close()
        self.hash_room.pool.close()


def _hash_threads(config: Config) -> int:
    return config.auth.max_concurrent_hashes or max(1, (os.cpu_count() or 2) - 1)


def _authme_mail(authme: AuthMeConfig | None) -> AuthMeMailAccount | None:
    if authme is None:
        return None
    return AuthMeMailAccount(authme.mail.address, authme.mail.password, authme.mail.host, authme.mail.port)


def _hasher(authme: AuthMeConfig | None) -> PasswordHasher | None:
    if authme is None:
        return None
    try:
        return make_password_hasher(authme.hashing)
    except UnusableHashing as error:
        raise ConfigError([str(error)]) from error


def _rules(config: Config, authme: AuthMeConfig | None) -> tuple[NameRule, PasswordRule]:
    """AuthMe's own rules, or its defaults where there is none, with the patterns the host gives instead."""
    names = authme.name_rule if authme else DEFAULT_NAME_RULE
    passwords = authme.password_rule if authme else DEFAULT_PASSWORD_RULE
    given = config.registration
    if given.username_regex:
        pattern = compile_java_pattern(given.username_regex, "registration.username_regex")
        names = dataclasses.replace(names, pattern=pattern)
    if given.password_regex:
        pattern = compile_java_pattern(given.password_regex, "registration.password_regex")
        passwords = dataclasses.replace(passwords, pattern=pattern)
    return names, passwords


def _policy(config: Config, is_bridge_on: bool, algorithms: frozenset[str]) -> Policy:
    sync, new_players = config.sync, config.sync.new_players
    if new_players == "auto":
        new_players = "pending" if config.registration.approval else "approved"
    return Policy(
        existing_players=sync.existing_players,
        new_players=new_players,
        on_player_removed=sync.on_player_removed,
        unapproved_players=sync.unapproved_players,
        conflict=sync.conflict,
        first_started_at=_BEFORE_EVERYTHING,
        algorithms=algorithms,
        is_bridge_on=is_bridge_on,
    )
