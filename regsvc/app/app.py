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
from regsvc.app.captcha import wire_captcha
from regsvc.app.chat import wire_chat
from regsvc.app.context import AppContext
from regsvc.app.game import wire_game
from regsvc.app.mail import wire_mail
from regsvc.app.passwords import PasswordParts, apply_authme_config, wire_passwords
from regsvc.app.questionnaire import wire_questionnaire
from regsvc.app.rcon import wire_rcon
from regsvc.app.self_service import wire_self_service
from regsvc.app.webhook import wire_webhook
from regsvc.auth.login_limits import LoginDelays, LoginLimits
from regsvc.auth.rate_limits import DurableLimits, MemoryLimits, StatusRateLimits
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.config.sections import Config
from regsvc.core.addresses import is_any_of
from regsvc.core.email_address import parse_email
from regsvc.core.i18n import load_translations
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.doctor.cached_checkup import CachedCheckup
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Host
from regsvc.doctor.facts.running_daemon import RunningDaemon
from regsvc.notifications.delivery import DeliveryWorkers
from regsvc.notifications.mail.backends import MailServerUnavailable, PermanentMailFailure, TemporaryMailFailure
from regsvc.notifications.mail.history import MailHistory
from regsvc.notifications.mail.resend import MailResender
from regsvc.notifications.rcon.queue import RconQueue
from regsvc.registration.registration import Registration, RegistrationPolicy
from regsvc.registration.steps import RegistrationStep
from regsvc.runtime.event_streams import EventStreams
from regsvc.runtime.events import EventLog
from regsvc.runtime.health import Health
from regsvc.runtime.loop_lag import LoopLag
from regsvc.runtime.metrics import Metrics, ProcessCollector, QueueCollector
from regsvc.sync.lease import SyncLease, instance_id
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Policy
from regsvc.sync.report import SyncReport
from regsvc.sync.run import Sync
from regsvc.sync.service import SyncService
from regsvc.sync.step_context import StepContext
from regsvc.sync.sync_records import SyncRecords
from regsvc.sync.unlock_all import UnlockAll
from regsvc.users.retention import Retention
from regsvc.users.transitions import Transitions
from regsvc.users.user_details import UserDetailsLoader
from regsvc.users.user_list import UserList

_BEFORE_EVERYTHING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class AuthParts:
    """Who is let in and what is written down of it."""

    audit: Audit
    sessions: Sessions
    known_clients: KnownClients
    limits: DurableLimits
    retention: Retention


def _wire_auth(context: AppContext) -> AuthParts:
    auth, now = context.config.auth, context.now
    audit = Audit(now)
    sessions = Sessions(
        signing=context.keys.signing,
        now=now,
        user_lifetime=auth.user_token,
        admin_lifetime=auth.admin_token,
        admin_idle=auth.admin_idle,
        is_operator=context.is_operator,
        audit=audit,
    )
    retention = Retention(context.location.database, context.config.retention, audit, now)
    return AuthParts(audit, sessions, KnownClients(now), DurableLimits(now), retention)


class App:
    """All services of one process, wired. `base_url` is where players reach it."""

    def __init__(self, context: AppContext, base_url: str) -> None:
        config, now = context.config, context.now
        database, players = context.location.database, context.location.players
        self.context = context
        self.worker = Worker(database, config.database.threads, also_close=players.close)
        self.sync_worker = Worker(database, 1, "sync", also_close=players.close)
        folder = config.server.translations
        self.translations = load_translations(*([folder] if folder else []))
        self.metrics, self.loop_lag, self.delivery_workers = Metrics(), LoopLag(), DeliveryWorkers()
        self.mail_parts = mail_parts = wire_mail(context, self.worker, base_url, self.metrics, self.delivery_workers)
        self.password_parts = password_parts = wire_passwords(context)
        self.metrics.register(ProcessCollector(), QueueCollector(self.worker, password_parts.pool, self.loop_lag))
        self.auth_parts = auth_parts = _wire_auth(context)

        sync_records = SyncRecords(database, now)
        webhook = wire_webhook(context, self.worker, self.translations, self.metrics, self.delivery_workers)
        console = wire_rcon(
            context, self.worker, self.translations, self.metrics, self.delivery_workers, self._settle_after_kick
        )
        transitions = Transitions(auth_parts.audit, mail_parts.mail_queue, webhook, console, now)
        find_game_uuid = partial(find_uuid, config.game.server_properties_path)
        self.reconciler = Reconciler(
            database,
            StepContext(players, sync_records, transitions, auth_parts.audit, now, find_game_uuid, console),
            _policy(config, players.is_enabled, password_parts),
            context.ops.names,
        )
        self.sync = SyncService(
            self.sync_worker,
            Sync(database, players, self.reconciler, auth_parts.audit, config.sync.max_changes, now),
            SyncLease(database, instance_id(config.server.state_dir)),
        )
        self.sync.on_finished = self._follow_run
        self.unlock_all = UnlockAll(database, players, sync_records)
        self.accounts = self._wire_accounts(transitions, console)
        self.captcha_parts = wire_captcha(context)
        self.login_limits = LoginLimits(MemoryLimits(now), LoginDelays(now), config.auth.login_limits)
        self.logins = self._wire_logins()
        self.chat_parts = wire_chat(context, self.worker, auth_parts.audit, self.logins, mail_parts.codes, base_url)
        self.questionnaires = wire_questionnaire(context, self.worker, auth_parts.limits, self.translations)
        self.registration = self._wire_registration(transitions)
        self.password_changes = self._wire_password_changes()
        self.self_service = self._wire_self_service(transitions)
        self.game_parts = wire_game(context)
        self.events = EventStreams(self.worker, EventLog(), auth_parts.sessions.is_still_admin)
        mail_parts.mail_queue.wake = self._follow_change
        self.users = UserList(now, is_bridge_on=players.is_enabled)
        self.services = self._wire_services()

    def _is_authme_cached(self) -> bool:
        return self.context.authme is not None and self.context.authme.caching

    def _settle_after_kick(self, key: str) -> None:
        """The row that a kick went before. Blocking."""
        self.reconciler.reconcile(key, may_adopt=False)

    def _follow_run(self, report: SyncReport) -> None:
        self.metrics.count_sync(report)
        self.mail_parts.mail_queue.wake()
        self.events.publish_run(report)

    def _follow_change(self) -> None:
        self.delivery_workers.wake()
        self.events.wake()

    def _wire_accounts(self, transitions: Transitions, console: RconQueue) -> Accounts:
        context = self.context
        return Accounts(
            database=context.location.database,
            reconciler=self.reconciler,
            transitions=transitions,
            sessions=self.auth_parts.sessions,
            links=self.mail_parts.links,
            player_warnings=PlayerWarnings(context.location.players, console, self._is_authme_cached),
            audit=self.auth_parts.audit,
            level_of=context.level_of,
            now=context.now,
        )

    def _wire_logins(self) -> Logins:
        context, auth_parts = self.context, self.auth_parts
        return Logins(
            database=context.location.database,
            worker=self.worker,
            hash_pool=self.password_parts.pool,
            hashing=self.password_parts.hashing,
            reconciler=self.reconciler,
            captchas=self.captcha_parts.captchas,
            limits=self.login_limits,
            known_clients=auth_parts.known_clients,
            sessions=auth_parts.sessions,
            audit=auth_parts.audit,
            is_operator=context.is_operator,
            now=context.now,
        )

    def _wire_registration(self, transitions: Transitions) -> Registration:
        context, config = self.context, self.context.config.registration
        return Registration(
            database=context.location.database,
            worker=self.worker,
            hash_pool=self.password_parts.pool,
            hashing=self.password_parts.hashing,
            players=context.location.players,
            reconciler=self.reconciler,
            transitions=transitions,
            codes=self.mail_parts.codes,
            mail_queue=self.mail_parts.mail_queue,
            limits=self.auth_parts.limits,
            mail_limits=self.mail_parts.limits,
            email_policy=self.mail_parts.email_policy,
            rules=self.password_parts.rules,
            policy=RegistrationPolicy(config.open, config.approval, config.reapply_after),
            captchas=self.captcha_parts.captchas,
            has_chat=bool(self.context.config.chat.platform),
            steps=self._registration_steps(),
            audit=self.auth_parts.audit,
            now=context.now,
        )

    def _registration_steps(self) -> list[RegistrationStep]:
        """What a registration has to bring beside the code, from cheap to dear."""
        return [*self.questionnaires.steps, *self.chat_parts.steps]

    def _wire_password_changes(self) -> PasswordChanges:
        return PasswordChanges(
            database=self.context.location.database,
            worker=self.worker,
            hash_pool=self.password_parts.pool,
            hashing=self.password_parts.hashing,
            accounts=self.accounts,
            logins=self.logins,
            links=self.mail_parts.links,
            limits=self.auth_parts.limits,
            mail_limits=self.mail_parts.limits,
            mail_queue=self.mail_parts.mail_queue,
            rules=self.password_parts.rules,
        )

    def _wire_self_service(self, transitions: Transitions) -> SelfService:
        return wire_self_service(
            self.context,
            self.worker,
            self.mail_parts,
            self.logins,
            self.reconciler,
            transitions,
            self.auth_parts.audit,
            self.chat_parts.links,
            self.questionnaires,
        )

    def _wire_services(self) -> Services:
        context, http, parts = self.context, self.context.config.http, self.mail_parts
        is_bridge_on = context.location.players.is_enabled
        return Services(
            config=context.config,
            worker=self.worker,
            translations=self.translations,
            sessions=self.auth_parts.sessions,
            name_rule=self.password_parts.names,
            password_rule=self.password_parts.password_rule,
            is_authme_enabled=is_bridge_on,
            registration=self.registration,
            logins=self.logins,
            captchas=self.captcha_parts.captchas,
            accounts=self.accounts,
            password_changes=self.password_changes,
            questionnaires=self.questionnaires,
            chat=self.chat_parts.chat,
            self_service=self.self_service,
            users=self.users,
            user_details=UserDetailsLoader(self.users, self.questionnaires.find_result_of, context.now),
            audit=self.auth_parts.audit,
            sync=self.sync,
            status_limits=StatusRateLimits(
                MemoryLimits(context.now), http.status_limit, is_any_of(http.trusted_clients)
            ),
            mail_queue=self.mail_parts.mail_queue,
            mail_history=MailHistory(),
            mail_resender=MailResender(
                context.location.database, parts.outbox, parts.renderer, parts.mail_queue, self.auth_parts.audit
            ),
            health=Health(self.worker, self.mail_parts.outbox, self.sync, context.now, is_bridge_on=is_bridge_on),
            metrics=self.metrics,
            updates=self.game_parts.updates,
            plugin=self.game_parts.plugin,
            game_status=self.game_parts.game_status,
            doctor=CachedCheckup(self._gather_facts, context.now),
            events=self.events,
        )

    def _gather_facts(self) -> Facts:
        """What the doctor begins with. On the event loop."""
        config, report = self.services.config, self.sync.last_report
        has_held_back_changes = report is not None and report.held_back is not None
        return Facts(config, Host(now=self.context.now), RunningDaemon(config.address(), True, has_held_back_changes))

    def apply_config(self, config: Config) -> None:
        """Go on with a config that differs in keys of `regsvc.runtime.reload.RELOADABLE` alone. On the event loop."""
        self.login_limits.login_limits = config.auth.login_limits
        self.services.status_limits.status_limit = config.http.status_limit
        self.registration.policy = dataclasses.replace(self.registration.policy, is_open=config.registration.open)
        self.services = dataclasses.replace(self.services, config=config)

    def apply_authme_config(self, authme: AuthMeConfig) -> None:
        """Go on with AuthMe's config as it is now; table and columns are the same. On the event loop.

        Raises `ConfigError`, and nothing has changed then.
        """
        self.password_parts = parts = apply_authme_config(self.password_parts, self.context.config, authme)
        self.reconciler.apply_authme_config(parts.algorithms, may_provision=parts.may_provision)
        self.context = dataclasses.replace(self.context, authme=authme)
        self.services = dataclasses.replace(self.services, name_rule=parts.names, password_rule=parts.password_rule)

    def open(self) -> None:
        """The database has our tables: rules may run."""
        self.worker.is_open = self.sync_worker.is_open = True

    async def send_test_mail(self, address: str) -> str | None:
        """Send a mail past the outbox. Returns what went wrong, None if nothing did. Raises `InvalidEmail`."""
        recipient = parse_email(address)
        language = self.context.config.server.language
        message = self.mail_parts.renderer.compose("mail_test", recipient, language, {})
        try:
            await self.mail_parts.backend.send(message, recipient)
        except (PermanentMailFailure, TemporaryMailFailure, MailServerUnavailable) as error:
            return str(error)
        return None

    def purge_expired(self) -> None:
        """Remove what nobody can use any more. Blocking; each line is a statement of its own."""
        now = self.context.now()
        self.auth_parts.sessions.purge_expired()
        self.auth_parts.known_clients.purge()
        self.auth_parts.limits.purge(now - timedelta(days=2))
        self.mail_parts.codes.purge_expired()
        self.mail_parts.links.purge_expired()
        self.questionnaires.purge_expired()
        self.chat_parts.purge_expired()
        self.mail_parts.outbox.purge_done(now - self.context.config.retention.outbox)

    def close(self) -> None:
        """Let what runs on threads end, and close every connection. Blocking."""
        self.worker.close()
        self.sync_worker.close()
        self.password_parts.pool.close()
        self.captcha_parts.pool.close()


def _policy(config: Config, is_bridge_on: bool, password_parts: PasswordParts) -> Policy:
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
        algorithms=password_parts.algorithms,
        is_bridge_on=is_bridge_on,
        may_provision=password_parts.may_provision,
    )
