"""The wiring: who gets whom. Imported by `companion.py` and tests only."""

import dataclasses
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from plugin_bridge.authme_config import AuthMeConfig
from plugin_bridge.hashers import PasswordHasher, UnusableHashing, make_password_hasher
from plugin_bridge.rules import DEFAULT_NAME_RULE, DEFAULT_PASSWORD_RULE, NameRule, PasswordRule, compile_java_pattern
from plugin_bridge.server_files import OpsFile
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
from regsvc.home import Home, check_recorded_home, read_authme, resolve_home, settle_in
from regsvc.i18n import load_translations
from regsvc.input_rules import BedrockNames, InputRules
from regsvc.keys import Keys, fingerprint, load_keys
from regsvc.links import PasswordLinks
from regsvc.login_delays import KnownClients, LoginDelays
from regsvc.login_limits import LoginLimits
from regsvc.logins import Logins
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
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Policy
from regsvc.sync.run import Sync
from regsvc.sync.service import SyncLease, SyncService
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


class App:
    """All services of one process, wired. `base_url` is where players reach it."""

    def __init__(self, ground: Ground, base_url: str) -> None:
        config, now = ground.config, ground.now
        database, players = ground.home.database, ground.home.players
        self.ground = ground
        self.worker = Worker(database, config.database.threads, also_close=players.close)
        self.sync_worker = Worker(database, 1, "sync", also_close=players.close)
        self.hash_pool = HashPool(_hash_threads(config), config.auth.max_waiting_hashes)
        self.translations = load_translations()
        self.mailer: Mailer = make_mailer(config.mail, _authme_mail(ground.authme))

        hasher = _hasher(ground.authme)
        passwords = Passwords(hasher)
        names, password_rule = _rules(config, ground.authme)
        rules = InputRules(
            names=names,
            passwords=password_rule,
            bedrock=BedrockNames(config.bedrock.enabled, compile_pattern(config.bedrock.username_regex)),
            reserved_names=config.registration.reserved_names,
            level_of=ground.level_of,
            password_mode=config.registration.password,
        )

        secrets = DerivedSecrets(ground.keys.installation_key)
        self.audit = Audit(now)
        self.limits = DurableLimits(now)
        self.known_clients = KnownClients(now)
        self.codes = VerificationCodes(
            secrets,
            now,
            valid=config.verification.code_valid,
            max_tries=config.verification.max_tries,
            digits=config.verification.code_digits,
        )
        self.links = PasswordLinks(secrets, now)
        self.outbox = Outbox(now, config.mail.max_attempts)
        self.renderer = MailRenderer(
            load_mail_templates(config.mail.templates),
            self.codes,
            self.links,
            self.outbox,
            now,
            sender=self.mailer.sender,
            server_name=config.server.name,
            base_url=base_url,
        )
        self.delivery = MailDelivery(
            self.worker, MailDesk(database, self.outbox, self.codes, self.renderer), self.mailer
        )
        mails = Mails(
            self.outbox,
            config.server.language,
            is_available=self.mailer.is_available,
            wake=self.delivery.wake,
        )
        self.tokens = Tokens(
            signing=ground.keys.signing,
            now=now,
            user_lifetime=config.auth.user_token,
            admin_lifetime=config.auth.admin_token,
            admin_idle=config.auth.admin_idle,
            is_operator=lambda username: ground.level_of(username) > 0,
            audit=self.audit,
        )
        transitions = Transitions(self.audit, mails, now)
        agreements = Agreements(database, now)
        world = World(players, agreements, transitions, self.audit, now)
        self.reconciler = Reconciler(database, world, _policy(config, players.is_enabled, hasher), ground.level_of)
        self.sync = SyncService(
            self.sync_worker,
            Sync(database, players, self.reconciler, self.audit, config.sync.max_changes, now),
            SyncLease(database, now),
        )
        self.accounts = Accounts(
            database=database,
            reconciler=self.reconciler,
            transitions=transitions,
            tokens=self.tokens,
            audit=self.audit,
            level_of=ground.level_of,
            now=now,
        )
        logins = Logins(
            database=database,
            worker=self.worker,
            hash_pool=self.hash_pool,
            passwords=passwords,
            reconciler=self.reconciler,
            limits=LoginLimits(MemoryLimits(now), LoginDelays(now), config.auth.login_limits),
            known_clients=self.known_clients,
            tokens=self.tokens,
            audit=self.audit,
            is_operator=lambda username: ground.level_of(username) > 0,
            now=now,
        )
        mail_limits = MailLimits(
            config.verification.limits_per_address,
            config.verification.limits_per_client,
            config.verification.limits_total,
        )
        registration = Registration(
            database=database,
            worker=self.worker,
            hash_pool=self.hash_pool,
            passwords=passwords,
            players=players,
            reconciler=self.reconciler,
            transitions=transitions,
            codes=self.codes,
            mails=mails,
            limits=self.limits,
            mail_limits=mail_limits,
            email_policy=EmailPolicy(
                config.registration.email_domains,
                config.registration.blocked_email_domains,
                accepts_aliases=config.registration.email_aliases,
            ),
            rules=rules,
            policy=RegistrationPolicy(
                config.registration.open, config.registration.approval, config.registration.reapply_after
            ),
            audit=self.audit,
            now=now,
        )
        self.password_changes = PasswordChanges(
            database=database,
            worker=self.worker,
            hash_pool=self.hash_pool,
            passwords=passwords,
            accounts=self.accounts,
            logins=logins,
            registration=registration,
            links=self.links,
            limits=self.limits,
            mail_limits=mail_limits,
            mails=mails,
            rules=rules,
        )
        self.release = Release(database, players, agreements)
        self.services = Services(
            config=config,
            worker=self.worker,
            translations=self.translations,
            tokens=self.tokens,
            name_rule=names,
            password_rule=password_rule,
            is_authme_enabled=players.is_enabled,
            registration=registration,
            logins=logins,
            accounts=self.accounts,
            password_changes=self.password_changes,
            users=UserList(now, is_bridge_on=players.is_enabled),
            audit=self.audit,
            sync=self.sync,
            status_limits=StatusLimits(
                MemoryLimits(now), config.http.status_limit, is_any_of(config.http.trusted_clients)
            ),
            level_of=ground.level_of,
            mails=mails,
        )

    def open(self) -> None:
        """The database has our tables: rules may run."""
        self.worker.is_open = self.sync_worker.is_open = True

    async def send_test_mail(self, address: str) -> str | None:
        """Send a mail past the outbox. Returns what went wrong, None if nothing did. Raises `InvalidEmail`."""
        recipient = parse_email(address)
        message = self.renderer.compose("mail_test", recipient, self.ground.config.server.language, {})
        try:
            await self.mailer.send(message, recipient)
        except (MailRefused, MailPostponed, MailServerAway) as error:
            return str(error)
        return None

    def purge_expired(self) -> None:
        """Remove what nobody can use any more. Blocking; each line is a statement of its own."""
        self.tokens.purge_expired()
        self.codes.purge_dead()
        self.links.purge_dead()
        self.known_clients.purge()
        self.limits.purge(self.ground.now() - timedelta(days=2))
        self.outbox.purge_done(self.ground.now() - self.ground.config.retention.outbox)

    def close(self) -> None:
        """Let what runs on threads end, and close every connection. Blocking."""
        self.worker.close()
        self.sync_worker.close()
        self.hash_pool.close()


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


def _policy(config: Config, is_bridge_on: bool, hasher: PasswordHasher | None) -> Policy:
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
        algorithms=frozenset(hasher.algorithms) if hasher else frozenset(),
        is_bridge_on=is_bridge_on,
    )
