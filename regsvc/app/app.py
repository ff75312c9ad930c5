"""The wiring: who gets whom. Imported by `companion.py` and tests only."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.server.files import find_uuid
from regsvc.accounts.decisions import Accounts
from regsvc.accounts.login import Logins
from regsvc.accounts.password_changes import PasswordChanges
from regsvc.accounts.player_warnings import PlayerWarnings
from regsvc.accounts.self_service import SelfService
from regsvc.api.services import Services
from regsvc.app.captcha import open_captcha_room
from regsvc.app.chat import open_chat_room
from regsvc.app.context import Ground
from regsvc.app.game import open_server_room
from regsvc.app.mail import open_mail_room
from regsvc.app.passwords import HashRoom, open_hash_room, take_over_authme
from regsvc.app.questionnaire import open_questionnaires
from regsvc.app.rcon import open_rcon
from regsvc.app.self_service import open_self_service
from regsvc.app.webhook import open_webhook
from regsvc.auth.login_limits import LoginDelays, LoginLimits
from regsvc.auth.rate_limits import DurableLimits, MemoryLimits, StatusLimits
from regsvc.auth.sessions import KnownClients, Tokens
from regsvc.config.sections import Config
from regsvc.core.addresses import is_any_of
from regsvc.core.email_address import EmailPolicy, parse_email
from regsvc.core.i18n import load_translations
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.doctor.cached_checkup import HouseDoctor
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Machine
from regsvc.doctor.facts.running_daemon import RunningCompanion
from regsvc.notifications.delivery import Deliveries
from regsvc.notifications.mail.backends import MailPostponed, MailRefused, MailServerAway
from regsvc.notifications.mail.history import MailList
from regsvc.notifications.mail.resend import Resending
from regsvc.notifications.rcon.console import GameConsole
from regsvc.registration.registration import Registration, RegistrationPolicy
from regsvc.registration.steps import RegistrationStep
from regsvc.runtime.event_streams import EventStreams
from regsvc.runtime.events import EventLog
from regsvc.runtime.health import Health
from regsvc.runtime.loop_lag import LoopLag
from regsvc.runtime.metrics import Metrics, ProcessFigures, QueueFigures
from regsvc.sync.lease import SyncLease, place_of
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Policy
from regsvc.sync.report import SyncReport
from regsvc.sync.run import Sync
from regsvc.sync.service import SyncService
from regsvc.sync.steps import World
from regsvc.sync.sync_records import Agreements
from regsvc.sync.unlock_all import Release
from regsvc.users.retention import Retention
from regsvc.users.transitions import Transitions
from regsvc.users.user_details import UserDetails
from regsvc.users.user_list import UserList

_BEFORE_EVERYTHING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Desk:
    """Who is let in and what is written down of it."""

    audit: Audit
    tokens: Tokens
    known_clients: KnownClients
    limits: DurableLimits
    retention: Retention


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
    retention = Retention(ground.home.database, ground.config.retention, audit, now)
    return Desk(audit, tokens, KnownClients(now), DurableLimits(now), retention)


class App:
    """All services of one process, wired. `base_url` is where players reach it."""

    def __init__(self, ground: Ground, base_url: str) -> None:
        config, now = ground.config, ground.now
        database, players = ground.home.database, ground.home.players
        self.ground = ground
        self.worker = Worker(database, config.database.threads, also_close=players.close)
        self.sync_worker = Worker(database, 1, "sync", also_close=players.close)
        folder = config.server.translations
        self.translations = load_translations(*([folder] if folder else []))
        self.metrics, self.loop_lag, self.deliveries = Metrics(), LoopLag(), Deliveries()
        self.mail_room = mail_room = open_mail_room(ground, self.worker, base_url, self.metrics, self.deliveries)
        self.hash_room = hash_room = open_hash_room(ground)
        self.metrics.watch(ProcessFigures(), QueueFigures(self.worker, hash_room.pool, self.loop_lag))
        self.desk = desk = _open_desk(ground)

        agreements = Agreements(database, now)
        webhook = open_webhook(ground, self.worker, self.translations, self.metrics, self.deliveries)
        console = open_rcon(
            ground, self.worker, self.translations, self.metrics, self.deliveries, self._settle_after_kick
        )
        transitions = Transitions(desk.audit, mail_room.mails, webhook, console, now)
        find_game_uuid = partial(find_uuid, config.game.server_properties_path)
        self.reconciler = Reconciler(
            database,
            World(players, agreements, transitions, desk.audit, now, find_game_uuid, console),
            _policy(config, players.is_enabled, hash_room),
            ground.ops.names,
        )
        self.sync = SyncService(
            self.sync_worker,
            Sync(database, players, self.reconciler, desk.audit, config.sync.max_changes, now),
            SyncLease(database, place_of(config.server.state_dir)),
        )
        self.sync.on_finished = self._follow_run
        self.release = Release(database, players, agreements)
        self.accounts = self._wire_accounts(transitions, console)
        self.captcha_room = open_captcha_room(ground)
        self.login_limits = LoginLimits(MemoryLimits(now), LoginDelays(now), config.auth.login_limits)
        self.logins = self._wire_logins()
        self.chat_room = open_chat_room(ground, self.worker, desk.audit, self.logins, mail_room.codes, base_url)
        self.questionnaires = open_questionnaires(ground, self.worker, desk.limits, self.translations)
        self.registration = self._wire_registration(transitions)
        self.password_changes = self._wire_password_changes()
        self.self_service = self._wire_self_service(transitions)
        self.server_room = open_server_room(ground)
        self.events = EventStreams(self.worker, EventLog(), desk.tokens.is_still_admin)
        mail_room.mails.wake = self._follow_change
        self.users = UserList(now, is_bridge_on=players.is_enabled)
        self.services = self._wire_services()

    def _is_authme_cached(self) -> bool:
        return self.ground.authme is not None and self.ground.authme.caching

    def _settle_after_kick(self, key: str) -> None:
        """The row that a kick went before. Blocking."""
        self.reconciler.settle(key, may_adopt=False)

    def _follow_run(self, report: SyncReport) -> None:
        self.metrics.count_sync(report)
        self.mail_room.mails.wake()
        self.events.follow_run(report)

    def _follow_change(self) -> None:
        self.deliveries.wake()
        self.events.wake()

    def _wire_accounts(self, transitions: Transitions, console: GameConsole) -> Accounts:
        ground = self.ground
        return Accounts(
            database=ground.home.database,
            reconciler=self.reconciler,
            transitions=transitions,
            tokens=self.desk.tokens,
            links=self.mail_room.links,
            player_warnings=PlayerWarnings(ground.home.players, console, self._is_authme_cached),
            audit=self.desk.audit,
            level_of=ground.level_of,
            now=ground.now,
        )

    def _wire_logins(self) -> Logins:
        ground, desk = self.ground, self.desk
        return Logins(
            database=ground.home.database,
            worker=self.worker,
            hash_pool=self.hash_room.pool,
            passwords=self.hash_room.passwords,
            reconciler=self.reconciler,
            captchas=self.captcha_room.captchas,
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
            captchas=self.captcha_room.captchas,
            has_chat=bool(self.ground.config.chat.platform),
            steps=self._registration_steps(),
            audit=self.desk.audit,
            now=ground.now,
        )

    def _registration_steps(self) -> list[RegistrationStep]:
        """What a registration has to bring beside the code, from cheap to dear."""
        return [*self.questionnaires.steps, *self.chat_room.steps]

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

    def _wire_self_service(self, transitions: Transitions) -> SelfService:
        return open_self_service(
            self.ground,
            self.worker,
            self.mail_room,
            self.logins,
            self.reconciler,
            transitions,
            self.desk.audit,
            self.chat_room.links,
            self.questionnaires,
        )

    def _wire_services(self) -> Services:
        ground, http, room = self.ground, self.ground.config.http, self.mail_room
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
            captchas=self.captcha_room.captchas,
            accounts=self.accounts,
            password_changes=self.password_changes,
            questionnaires=self.questionnaires,
            chat=self.chat_room.chat,
            self_service=self.self_service,
            users=self.users,
            user_details=UserDetails(self.users, self.questionnaires.find_result_of, ground.now),
            audit=self.desk.audit,
            sync=self.sync,
            status_limits=StatusLimits(MemoryLimits(ground.now), http.status_limit, is_any_of(http.trusted_clients)),
            mails=self.mail_room.mails,
            mail_list=MailList(),
            resending=Resending(ground.home.database, room.outbox, room.renderer, room.mails, self.desk.audit),
            health=Health(self.worker, self.mail_room.outbox, self.sync, ground.now, is_bridge_on=is_bridge_on),
            metrics=self.metrics,
            updates=self.server_room.updates,
            plugin=self.server_room.plugin,
            game_status=self.server_room.game_status,
            doctor=HouseDoctor(self._gather_facts, ground.now),
            events=self.events,
        )

    def _gather_facts(self) -> Facts:
        """What the doctor begins with. On the event loop."""
        config, report = self.services.config, self.sync.last_report
        is_braked = report is not None and report.braked is not None
        return Facts(config, Machine(now=self.ground.now), RunningCompanion(config.address(), True, is_braked))

    def take_over(self, config: Config) -> None:
        """Go on with a config that differs in keys of `regsvc.runtime.reload.RELOADABLE` alone. On the event loop."""
        self.login_limits.login_limits = config.auth.login_limits
        self.services.status_limits.status_limit = config.http.status_limit
        self.registration.policy = dataclasses.replace(self.registration.policy, is_open=config.registration.open)
        self.services = dataclasses.replace(self.services, config=config)

    def take_over_authme(self, authme: AuthMeConfig) -> None:
        """Go on with AuthMe's config as it is now; table and columns are the same. On the event loop.

        Raises `ConfigError`, and nothing has changed then.
        """
        self.hash_room = room = take_over_authme(self.hash_room, self.ground.config, authme)
        self.reconciler.take_over(room.algorithms, may_provision=room.may_provision)
        self.ground = dataclasses.replace(self.ground, authme=authme)
        self.services = dataclasses.replace(self.services, name_rule=room.names, password_rule=room.password_rule)

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
        self.questionnaires.purge_dead()
        self.chat_room.purge_dead()
        self.mail_room.outbox.purge_done(now - self.ground.config.retention.outbox)

    def close(self) -> None:
        """Let what runs on threads end, and close every connection. Blocking."""
        self.worker.close()
        self.sync_worker.close()
        self.hash_room.pool.close()
        self.captcha_room.pool.close()


def _policy(config: Config, is_bridge_on: bool, hash_room: HashRoom) -> Policy:
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
        algorithms=hash_room.algorithms,
        is_bridge_on=is_bridge_on,
        may_provision=hash_room.may_provision,
    )
