"""The application: all services of one process, wired feature by feature."""

import asyncio
import logging
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from plugin_bridge.authme.rules import compile_pattern
from plugin_bridge.server.allowlist import AllowlistConsole, AllowlistFile
from plugin_bridge.server.versions import PluginJar
from regsvc.accounts.access import AccountAccess
from regsvc.accounts.captcha import MAX_WAITING_PICTURES, Captchas, ChallengeStore, uses_with_captcha
from regsvc.accounts.chat.guild_roles import LEASE, LEASE_PERIOD, Guild, GuildRoles
from regsvc.accounts.chat.linking import ChatLinking
from regsvc.accounts.chat.provider import AuthorizationRequests, ChatProvider, with_defaults
from regsvc.accounts.decisions import Decisions
from regsvc.accounts.email_addresses import EmailChanges, EmailVerification
from regsvc.accounts.invitations import Invitations
from regsvc.accounts.login import Logins
from regsvc.accounts.membership import MembershipChanges
from regsvc.accounts.membership_watch import MembershipWatch
from regsvc.accounts.password_changes import PasswordChanges, PasswordMails
from regsvc.accounts.password_checker import PasswordChecker
from regsvc.accounts.second_factor import SecondFactorSetup
from regsvc.accounts.self_deletion import SelfDeletion, SessionEnding
from regsvc.accounts.status_lookup import StatusLookup
from regsvc.accounts.team import LostRights, TeamRoles
from regsvc.accounts.team_credentials import TeamCredentials
from regsvc.accounts.undo import Undo
from regsvc.allowlist.profiles import Profiles
from regsvc.allowlist.run import AllowlistRunner, ListReport, keeps_list, read_list_config
from regsvc.app.context import AppContext
from regsvc.auth.api_tokens import ApiTokens
from regsvc.auth.derived_secrets import ApplicationTokens, DerivedSecrets
from regsvc.auth.entitlement import MadeByRight, MadeThings
from regsvc.auth.hashing import HashPool, PasswordHashing
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.rate_limits import DurableLimits, LoginDelays, LoginLimits, MemoryLimits, StatusRateLimits
from regsvc.auth.second_factor import SecondFactors
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.config.live import LiveConfig
from regsvc.core.addresses import VerifiedSession
from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.clock import ClockWatch
from regsvc.core.email_address import EmailPolicy, parse_email
from regsvc.core.i18n import load_translations
from regsvc.core.rights import Rights, Team
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit, format_roughly
from regsvc.database.audit import Audit
from regsvc.database.engine import MAX_LISTS, ListWorker, SyncWorker, Worker
from regsvc.database.lease import TaskLease, instance_id
from regsvc.database.location import read_other_authmes
from regsvc.database.models import OutboxEntry
from regsvc.doctor.abandonable import await_call
from regsvc.doctor.last_checkup import DoctorRuns
from regsvc.http.route import Features
from regsvc.notifications.delivery import DeliveryWorker
from regsvc.notifications.mail.backends import make_mail_backend
from regsvc.notifications.mail.history import MailResender
from regsvc.notifications.mail.queue import AdminDigest, Budget, MailLimits, MailQueue
from regsvc.notifications.mail.renderer import MailRenderer, load_mail_templates
from regsvc.notifications.mail.transport import MailTransport, mail_retry_policy, start_code
from regsvc.notifications.outbox import Outbox, Outcome
from regsvc.notifications.rcon import (
    KIND,
    RCON_RETRY_POLICY,
    RconQueue,
    RconTransport,
    find_consoles,
    insert_row_after_kick,
    keep_reply,
)
from regsvc.notifications.webhook import WEBHOOK_RETRY_POLICY, WebhookQueue, WebhookTransport
from regsvc.registration.applications.changes import ApplicationChanges
from regsvc.registration.applications.status import Applications, ApplicationStreams
from regsvc.registration.public_config import PublicConfig
from regsvc.registration.questionnaire.questions import Questionnaire, load_questionnaire
from regsvc.registration.questionnaire.scorer import make_scorer
from regsvc.registration.questionnaire.service import QuestionnaireCondition, QuestionnaireResults, Questionnaires
from regsvc.registration.registration import ChatCondition, Registration, RegistrationCondition
from regsvc.registration.user_creation import UserCreation
from regsvc.runtime.event_streams import EventStreams
from regsvc.runtime.game_status import GameServers, make_game_statuses
from regsvc.runtime.health import PROBES, Health, InstallationWatch
from regsvc.runtime.join_facts import WhyNot
from regsvc.runtime.metrics import LoopLag, Metrics, ProcessCollector, QueueCollector
from regsvc.runtime.reload import PendingRestart
from regsvc.runtime.settings import ServerSettings
from regsvc.runtime.updates import InstalledPlugin, make_updates
from regsvc.sync.effects import SyncContext
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.report import SyncReport
from regsvc.sync.run import SyncRunner
from regsvc.sync.service import SyncLease, SyncService
from regsvc.team_chat.decisions import ChatReceiver, TeamDecisions
from regsvc.team_chat.messages import MessageRenderer, TeamChatQueue, TeamChatTransport, purge_messages
from regsvc.team_chat.service import make_platforms, open_chats
from regsvc.users.chat_links import ChatLinks
from regsvc.users.credential_rules import BedrockNames, CredentialRules
from regsvc.users.export import UserExport
from regsvc.users.gates import Gates
from regsvc.users.notes import Notes
from regsvc.users.password_notices import PasswordNotices
from regsvc.users.questions import Questions
from regsvc.users.retention import Retention, find_reapply_at_after
from regsvc.users.transitions import Transitions
from regsvc.users.user_details import UserDetailsLoader
from regsvc.users.user_list import UserList

if TYPE_CHECKING:
    from regsvc.doctor.checkup import Checkup

log = logging.getLogger(__name__)


class App:
    """All services of one process. `base_url`: where players reach it.

    One `_wire_…` method per feature, in the order in which features build on each other.
    """

    def __init__(self, context: AppContext, base_url: str) -> None:
        """Wire everything; no connection is open yet. Raises `ConfigError` for what the config's files cannot mean."""
        self.context = context
        self.base_url = base_url
        self._config, self._now = context.config, context.now
        self._database, self._players = context.location.database, context.location.players
        self._secrets = DerivedSecrets(context.keys.installation_key)
        self._wire_process()
        self._wire_auth()
        self._wire_passwords()
        self._wire_mail()
        self._wire_mail_queue()
        self._wire_console()
        self._wire_webhook()
        self._wire_sync()
        self._wire_captchas()
        self._wire_accounts()
        self._wire_password_changes()
        self._wire_chat()
        self._wire_questionnaire()
        self._wire_registration()
        self._wire_applications()
        self._wire_own_account()
        self._wire_game()
        self._wire_admin()
        self._wire_team_chat()
        self.public_config = PublicConfig(
            self.live, self.translations, self.gates, self.questionnaires, self.mail_queue
        )
        self.http_metrics = self.metrics.http

    @cached_property
    def features(self) -> Features:
        """The attributes that functions of routes, and calls, take by their classes.

        Commands, which have none, do without the route table and the web framework.
        """
        from regsvc.app.routes import TABLES
        from regsvc.http.call import OF_EVERY_CALL

        kinds = {kind for table in (*TABLES.values(), PROBES) for route in table for _name, kind in route.needs}
        return Features.of(*(value for value in vars(self).values() if type(value) in kinds | OF_EVERY_CALL))

    def _wire_process(self) -> None:
        """The process: config in force, worker threads, metrics, delivery of messages."""
        config = self._config
        self.live = LiveConfig(config, self.context.authme)
        self.live.apply_other_authmes(read_other_authmes(config).values())
        close = self._players.close
        self.worker = Worker(self._database, config.database.threads, also_close=close)
        outages = self.worker.outage_log
        self.sync_worker = SyncWorker(self._database, 1, "sync", also_close=close, outage_log=outages)
        self.list_worker = ListWorker(self._database, 1, "list", outage_log=outages, max_calls=MAX_LISTS)
        self._workers = (self.worker, self.list_worker, self.sync_worker)
        folder = config.server.translations
        self.translations = load_translations(
            *([folder] if folder else []),
            offered=config.server.languages,
            default=config.server.language,
            contact=lambda: self.live.current.server.told_contact,
            zone=config.server.zone,
        )
        self.metrics = Metrics(config.server.instance)
        self.loop_lag = LoopLag()
        self.deliveries: list[DeliveryWorker] = []
        self.clock = ClockWatch(self._now)
        self.pending_restart = PendingRestart()
        self.installation = InstallationWatch(config.server.state_dir, self.context.location.file, config.file)

    def _wire_auth(self) -> None:
        """Sessions, durable limits, the audit log, live events for admins."""
        auth = self._config.auth
        self.audit = Audit(self._now)
        self.team = Team(self.context.level_of, self.context.protected_level_of, self._needs_second_factor)
        self.sessions = Sessions(
            signing=self.context.keys.signing,
            now=self._now,
            user_lifetime=auth.user_token,
            admin_lifetime=auth.admin_token,
            user_idle=auth.user_idle,
            admin_idle=auth.admin_idle,
            team=self.team,
            needs_second_factor=self._needs_second_factor,
            audit=self.audit,
        )
        self.settings = ServerSettings(self._database, self.live, self.audit, self._now)
        self.known_clients = KnownClients(self._now)
        self.second_factors = SecondFactors(self._secrets, self._now)
        self.limits = DurableLimits(self._now)
        self.retention = Retention(self._database, self._config.retention, self.audit, self._now)
        self.api_tokens = ApiTokens(self.team, self.audit, self._now)
        self.team_accounts = TeamAccounts(self._secrets, self.limits, self.team, self.audit, self._now)
        self.invitations = Invitations(self._secrets, self.team, self.audit, self._now, self.base_url)
        self.events = EventStreams(self.worker, self._may_go_on_listening)

    def _wire_passwords(self) -> None:
        """Hashing, rules for names and passwords."""
        auth, bedrock = self._config.auth, self._config.bedrock
        self.hash_pool = HashPool(auth.max_concurrent_hashes, auth.max_waiting_hashes)
        self.hashing = PasswordHashing(self.live, self.hash_pool)
        bedrock_names = BedrockNames(bedrock.enabled, bedrock.prefix, compile_pattern(bedrock.username_regex))
        self.credential_rules = CredentialRules(
            self.live, bedrock_names, self.context.operators.names, has_authme=self._players.is_enabled
        )
        queues = QueueCollector(self.worker, self.list_worker, self.hash_pool, self.loop_lag)
        self.metrics.register(ProcessCollector(), queues)

    def _wire_mail(self) -> None:
        """E-mail: what is in the mails, and their delivery."""
        config, now = self._config, self._now
        verification = config.verification
        authmes = self.context.authme.mail if self.context.authme else None
        self.mail_backend = make_mail_backend(config.mail, authmes, config.server.base_url)
        self.codes = VerificationCodes(
            self._secrets,
            now,
            valid=verification.code_valid,
            max_tries=verification.max_tries,
            digits=verification.code_digits,
            guesses=verification.tries_per_client,
        )
        self.links = PasswordLinks(self._secrets, now, self.team)
        kinds: dict[str, MadeThings] = {"sessions": self.sessions, "links": self.links, "tokens": self.api_tokens}
        kinds |= {"invitations": self.invitations, "chatAccounts": self.team_accounts}
        self.made_by_right = MadeByRight(self._database, kinds, self.audit)
        self.application_tokens = ApplicationTokens(self._secrets)
        self.outbox = Outbox(
            now,
            "mail",
            mail_retry_policy(config.mail.max_attempts),
            on_sent=lambda message: start_code(message, self.codes),
            on_finished=self.metrics.count_delivery,
        )
        live = self.live
        self.mail_renderer = MailRenderer(
            load_mail_templates(config.mail.templates),
            self.codes,
            self.links,
            now,
            sender=self.mail_backend.sender,
            config=lambda: live.current,
            translations=self.translations,
            base_url=self.base_url,
            application_tokens=self.application_tokens,
            find_reapply_at=lambda review: find_reapply_at_after(
                review, live.current.registration.reapply_after, now()
            ),
            find_standing=lambda user: self.gates.find_standing(user),
        )
        transport = MailTransport(self._database, self.mail_renderer, self.mail_backend)
        self.mail_delivery = DeliveryWorker(self.worker, self.outbox, transport)
        self.deliveries.append(self.mail_delivery)

    def _wire_mail_queue(self) -> None:
        """E-mail: who gets mails, at which addresses, and how many."""
        config, verification = self._config, self._config.verification
        is_available = self.mail_backend.is_available
        self.mail_queue = MailQueue(
            self.outbox,
            config.server.language,
            is_available=is_available and config.registration.requires_code,
            wake_all=self._on_change,
            wake_mails=self.mail_delivery.wake,
        )
        own, quoted = config.registration, config.mail.backend != "http"
        self.email_policy = EmailPolicy(
            own.email_domains, own.blocked_email_domains, accepts_aliases=own.email_aliases, accepts_quoted=quoted
        )
        self.mail_limits = self._make_mail_limits("mail", verification.limits_total)
        self.forgot_limits = self._make_mail_limits("forgot", verification.limits_total_forgot)
        admins = [parse_email(written) for written in config.mail.admins] if is_available else []
        self.admin_digest = AdminDigest(
            self._database, self.mail_queue, admins, config.mail.admin_digest, config.mail.remind_after, self._now
        )

    def _make_mail_limits(self, budget: Budget, total: tuple[RateLimit, ...]) -> MailLimits:
        verification = self._config.verification
        return MailLimits(
            self.limits,
            budget,
            verification.limits_per_address,
            verification.limits_per_client,
            total,
            is_known=self.known_clients.is_known,
            on_used_up=self.metrics.count_used_up_budget,
        )

    def _wire_console(self) -> None:
        """Commands to the game servers' remote consoles."""
        config, servers, files = self._config, self._config.game_servers, self.context.properties_files

        def on_finished(message: OutboxEntry, outcome: Outcome) -> None:
            self.metrics.count_delivery(message, outcome)
            insert_row_after_kick(message, partial(self.reconciler.reconcile, may_adopt=False))

        outbox = Outbox(self._now, KIND, RCON_RETRY_POLICY, on_sent=keep_reply, on_finished=on_finished)
        known = find_consoles(servers, files, may_block=False)
        uuids = self.context.uuids
        self.profiles = Profiles(self.live, uuids, self.worker, lambda: self.sync.wake_allowlist(), self._now)
        find_uuids = self.profiles.find_uuids
        self.console = RconQueue(outbox, known, config.game, config.server.language, find_uuids, self._now)
        current = find_consoles(servers, files, may_block=True)
        transport = RconTransport(current, self.translations, config.server.name, find_uuids, self._now)
        self.deliveries.append(DeliveryWorker(self.worker, outbox, transport, is_on=lambda: self.console.is_on))

    def _wire_webhook(self) -> None:
        """The webhooks that inform the host."""
        hooks, server = self._config.webhooks, self._config.server
        on_finished = self.metrics.count_delivery
        outbox = Outbox(self._now, "webhook", WEBHOOK_RETRY_POLICY, on_finished=on_finished)
        self.team_chat_queue = chats = TeamChatQueue(self._config.team_chats, server.language, self._now, on_finished)
        self.webhook = WebhookQueue(outbox, server.language, self._now, hooks=hooks, also_tell=chats.enqueue)
        transport = WebhookTransport(hooks, self.translations, server.name, self.base_url, self._now)
        self.deliveries.append(DeliveryWorker(self.worker, outbox, transport, is_on=lambda: self.webhook.is_on))

    def _wire_sync(self) -> None:
        """The sync with the gates: AuthMe's table, and the game's allowlist."""
        config, context, players = self._config, self.context, self._players
        self.gates = Gates(players.is_enabled, lambda: keeps_list(config, context.properties_files[""].current))
        self.questions = Questions(self.mail_queue, self.webhook, self.audit, self._now)
        told, tell = (self.mail_queue, self.webhook, self.console), self.team_chat_queue.tell_applicant
        self.transitions = Transitions(
            self.audit,
            *told,
            self._now,
            gates=self.gates,
            tell_applicant=tell,
            find_member_for=lambda: self.live.current.membership.ends,
            gives_role=bool(config.chat.give_role_id),
        )
        chats, links = self.team_chat_queue, self.links
        self.password_notices = PasswordNotices(
            self.mail_queue, chats.platforms, chats.tell_of_password, links, self.limits, self.live, self._now
        )
        done = self.transitions, self.audit, self._now, context.uuids.find, self.console, self.password_notices
        sync_context = SyncContext(self._database, players, *done)
        self.reconciler = Reconciler(sync_context, self.live, context.operators.names)
        self.allowlist = self._make_allowlist()
        self.sync = SyncService(
            self.sync_worker,
            SyncRunner(self._database, players, self.reconciler, self.audit, config.sync.max_changes, self._now),
            SyncLease(self._database, instance_id(config.server.state_dir, config.server.instance)),
            self.allowlist,
        )
        self.sync.on_finished = self._on_sync_finished
        self.sync.on_list_finished = self._on_list_finished

    def _make_allowlist(self) -> AllowlistRunner | None:
        game, file = self._config.game, self.context.properties_files[""]
        if self._config.allowlist.enabled is False or (game.directory is None and not self.gates.keeps_list()):
            return None
        find_console = find_consoles({"": game}, {"": file}, may_block=True)[""]
        return AllowlistRunner(
            self._database,
            AllowlistFile(game.directory / "whitelist.json") if game.directory else AllowlistConsole(find_console),
            self.context.uuids,
            file,
            find_console,
            self.transitions,
            self.console,
            self.audit,
            partial(read_list_config, self.live, adopts=not self._players.is_enabled),
            self._now,
            is_on=self.gates.keeps_list,
            find_operators=self.context.operators.uuids,
            row_requester=self.reconciler.row_requester,
        )

    def _wire_captchas(self) -> None:
        """Captchas, and the thread that draws them."""
        config = self._config.captcha
        self.challenges = ChallengeStore(self._now, config.max_outstanding)
        self.captcha_pool = BoundedPool("captcha", 1, MAX_WAITING_PICTURES)
        self.captchas = Captchas(
            config=config,
            required_for=uses_with_captcha(self._config),
            pool=self.captcha_pool,
            challenges=self.challenges,
            limits=MemoryLimits(self._now),
            now=self._now,
        )

    def _wire_accounts(self) -> None:
        """Decisions, logins, status of users."""
        database, worker, now = self._database, self.worker, self._now
        self.access = AccountAccess(database, self.reconciler, self.console, self.live, self.team)
        told = self.transitions, self.questions, self.mail_queue
        self.decisions = Decisions(self.access, self.reconciler, *told, self.limits, now)
        self.notes = Notes(database, self.limits, self.audit, now)
        decided = self.access, self.decisions, self.notes
        self.membership_changes = MembershipChanges(*decided, self.limits, self.live, now)
        place = self.context.properties_files[""], self._config.game.directory
        reminded = self.mail_queue, self.team
        self.membership_watch = MembershipWatch(database, self._players, *place, *reminded, self.live, now)
        limits = LoginLimits(MemoryLimits(now), MemoryLimits(now), LoginDelays(now), self.live)
        self.checker = PasswordChecker(
            worker, self.reconciler, self.known_clients, self.hashing, limits, self.audit, self.second_factors, now
        )
        checked = self.checker, self.captchas, self.access, self.reconciler
        opened = self.sessions, self.known_clients, self.audit, self.team
        returns = self.membership_changes.return_by_login
        self.logins = Logins(database, worker, *checked, *opened, self.live, now, returns)
        self.status_limits = StatusRateLimits(MemoryLimits(now), self.live)
        self.statuses = StatusLookup(database, worker, self.codes, self.application_tokens, self.live, now)

    def _wire_password_changes(self) -> None:
        """Passwords: changed, forgotten, handed over."""
        database, rules = self._database, self.credential_rules
        checked = self.hashing, self.checker, rules, self.access, self.reconciler
        ended = self.sessions, self.links, self.made_by_right, self.known_clients
        self.password_changes = PasswordChanges(
            self.worker, *checked, *ended, self.password_notices, self.audit, self._now
        )
        mailed = self.access, self.links, self.mail_queue, self.forgot_limits, self.email_policy
        limited = rules, self.captchas, self.limits
        self.password_mails = PasswordMails(
            database, self.worker, *mailed, *limited, self.audit, self.base_url, self._now
        )
        makers = self.api_tokens, self.team_accounts, self.password_mails, self.mail_queue, self.made_by_right
        self.team_credentials = TeamCredentials(self._database, self.worker, self.checker, *makers)

    def _wire_chat(self) -> None:
        """Links to chat accounts."""
        config = self._config.chat
        guild = Guild(self._config, self.base_url)
        gives, keeps = bool(guild.given), bool(guild.kept_by)
        told = self.audit, self.webhook, self.limits
        self.chat_links = ChatLinks(self._secrets, *told, self._now, gives_role=gives, keeps_members=keeps)
        self.chat_requests = AuthorizationRequests(self._secrets, self._now)
        self.chat = ChatLinking(
            ChatProvider(with_defaults(config, self.base_url)) if config.platform else None,
            database=self._database,
            worker=self.worker,
            requests=self.chat_requests,
            links=self.chat_links,
            checker=self.checker,
            codes=self.codes,
            limits=MemoryLimits(self._now),
            limits_per_client=config.limits_per_client,
        )
        changes, lease = self.membership_changes, self._make_lease(LEASE, LEASE_PERIOD)
        self.guild_roles = GuildRoles(guild, self.worker, changes, lease, MemoryLimits(self._now), self._now)

    def _make_lease(self, name: str, period: timedelta) -> TaskLease:
        instance = instance_id(self._config.server.state_dir, self._config.server.instance)
        return TaskLease(self._database, name, period, instance)

    def _wire_questionnaire(self) -> None:
        """The questionnaire of applicants, and the scoring of their answers."""
        config, language = self._config.questionnaire, self._config.server.language
        self.questionnaire_results = QuestionnaireResults(self._secrets, self._now, config.valid)
        self.questionnaires = Questionnaires(
            load_questionnaire(config.file, config.pass_score) if config.file else Questionnaire((), config.pass_score),
            config,
            self.questionnaire_results,
            database=self._database,
            worker=self.worker,
            codes=self.codes,
            limits=self.limits,
            scorer=make_scorer(config, language),
            translations=self.translations,
            access=self.access,
            audit=self.audit,
            language=language,
        )

    def _wire_registration(self) -> None:
        """Registration, and the verification of e-mail addresses."""
        database, worker, live = self._database, self.worker, self.live
        self.verification = EmailVerification(
            database, worker, self.codes, self.mail_queue, self.mail_limits, self.email_policy, self.captchas, live
        )
        conditions: list[RegistrationCondition] = []
        if self.questionnaires.is_enabled:
            conditions.append(QuestionnaireCondition(self.questionnaire_results))
        if self._config.chat.platform:
            conditions.append(ChatCondition(self.chat_links, is_required=self._config.chat.required))
        self.registration = Registration(
            worker=worker,
            live=live,
            rules=self.credential_rules,
            email_policy=self.email_policy,
            captchas=self.captchas,
            conditions=conditions,
            codes=self.codes,
            limits=self.limits,
            hashing=self.hashing,
            users=UserCreation(database, self._players, self.reconciler, self.transitions, self.audit, live, self._now),
            tokens=self.application_tokens,
            invitations=self.invitations,
            mail_queue=self.mail_queue,
            now=self._now,
        )

    def _wire_applications(self) -> None:
        """Applications: their status, and what applicants may change."""
        worker, tokens, live = self.worker, self.application_tokens, self.live
        applications = self.applications = Applications(worker, tokens, self.questionnaires, live, self._now)
        self.application_streams = ApplicationStreams(applications)
        rules = self.questionnaires, self.email_policy, self.captchas, self.mail_limits, self.limits
        told = self.questions, self.audit, self.webhook, self.mail_queue.wake_all
        self.application_changes = ApplicationChanges(self._database, worker, applications, tokens, *rules, live, *told)

    def _wire_own_account(self) -> None:
        """Users' own accounts: address, export, deletion, sessions, second factor."""
        operators = self.context.operators
        access, worker, checker = self.access, self.worker, self.checker
        proven = self.codes, self.email_policy, self.links, self.mail_queue, self.password_notices
        self.email_changes = EmailChanges(access, worker, checker, *proven, self.reconciler, self.audit, self.team)
        self.user_export = UserExport(
            self.audit, self.chat_links.find_of, self.questionnaire_results.find_of, self._now
        )
        self.self_deletion = SelfDeletion(
            access,
            worker,
            checker,
            self.decisions,
            self.mail_queue,
            is_operator=lambda username: operators.find(name_key(username)) is not None,
            live=self.live,
            now=self._now,
        )
        self.session_ending = SessionEnding(self._database, self.sessions, self.access, self.audit, self._now)
        used = self._players, self.reconciler, checker, self.second_factors, self.sessions, self.limits
        told = self.mail_queue, self.audit, self.team
        self.second_factor = SecondFactorSetup(self._database, worker, *used, *told, self.live, self._now)

    def _wire_game(self) -> None:
        """The game servers' status, the plugin's version, update checks."""
        config, game = self._config, self._config.game
        statuses = make_game_statuses(config, self.context.properties_files, self._now)
        main = statuses.pop("")
        self.game_servers = GameServers(main, {game.name or config.server.name: main, **statuses} if statuses else {})
        plugins = game.directory / "plugins" if game.directory else None
        self.plugin_version = InstalledPlugin(
            partial(asyncio.to_thread, PluginJar(plugins).find_version), timedelta(seconds=10), "installed-plugin"
        )
        self.updates = make_updates(config.updates, self._now)

    def _wire_admin(self) -> None:
        """Views of operators: users, mails, health, findings of the doctor."""
        worker, now, operators = self.worker, self._now, self.context.operators
        self.team_roles = TeamRoles(
            database=self._database,
            team=self.team,
            access=self.access,
            made=self.made_by_right,
            audit=self.audit,
            operators=operators.names,
            level_of=self.context.protected_level_of,
            announce=lambda user: self.webhook.enqueue("role_changed", user.username, user.status),
        )
        done = self.reconciler, self.transitions, self.made_by_right, self.mail_queue, self.audit
        self.undo = Undo(self._database, self.team, self.access, *done, now)
        self.lost_rights = LostRights(self.team_roles, operators, self.live, now)
        self.sync.before_run, self.sync.after_run = self._prepare_run, self._remind
        self.sync.foresee = self.membership_watch.foresee
        find_accounts, requires_code = self.profiles.find_accounts, lambda: self.live.current.registration.requires_code
        self.users = UserList(
            self.context.is_operator,
            self.gates,
            find_accounts,
            requires_code,
            is_accepted=lambda algorithm: algorithm in self.reconciler.policy.algorithms,
            now=now,
        )
        self.user_details = UserDetailsLoader(self.users, self.gates, self.questionnaire_results.find_of, now)
        self.mail_resender = MailResender(self._database, self.outbox, self.mail_renderer, self.mail_queue, self.audit)
        self.health = Health(worker, self.outbox, self.sync, now, self.pending_restart, self.installation, self.gates)
        gates, files = self.gates, (self.context.uuids, self.context.properties_files[""])
        self.why_not = WhyNot(self.reconciler, self.credential_rules, self.live, gates, self.sync, *files)
        self.doctor = DoctorRuns(self._examine, timedelta(minutes=1), "doctor")

    def _wire_team_chat(self) -> None:
        """Channels of chat platforms in which the team decides."""
        queue, now = self.team_chat_queue, self._now
        renderer = MessageRenderer(self.users, self.questionnaire_results.find_of, self.translations, self.base_url)
        platforms = make_platforms(self._config.team_chats, self.base_url)
        transport = TeamChatTransport(platforms, queue, renderer, self.translations, self._config.server.name, now)
        self.deliveries.append(DeliveryWorker(self.worker, queue.outbox, transport, is_on=lambda: queue.is_on))
        decisions = TeamDecisions(
            self.team_accounts, self.team, self.decisions, renderer, queue, now, self.membership_changes
        )
        count = self.metrics.count_chat_action
        receiver = ChatReceiver(decisions, self.worker, self.translations, self._on_change, count, now)
        self.settings.tell_of_pause = self._tell_of_pause
        self.team_chat = open_chats(platforms, receiver, self._make_lease)

    def _tell_of_pause(self) -> None:
        self.admin_digest.tell("registration_paused")
        self.team_chat_queue.enqueue_notice("registration_paused")

    async def _examine(self) -> "tuple[Checkup, datetime]":
        """Return what the doctor finds, and when; on a thread of its own."""
        config = self.live.current
        about_us: dict[str, Any] = {
            "has_held_back_changes": self.sync.has_held_back_changes,
            "restart_needed": self.pending_restart.keys,
            "is_state_lost": self.installation.is_lost,
            "is_unwritable": self.worker.outage_log.write_problem is not None,
            "seconds_since_sync": self.sync.seconds_since_run,
            "roles_problem": self.guild_roles.problem,
        }

        def look() -> "Checkup":
            from regsvc.doctor.checkup import examine_daemon

            return examine_daemon(config, self._now, about_us)

        return await await_call(look), self._now()

    def _on_sync_finished(self, report: SyncReport) -> None:
        self.metrics.count_sync(report)
        if not report.is_idle:
            self.mail_queue.wake_all()
        self.profiles.wake()
        self.events.publish_run(report)

    def _prepare_run(self) -> None:
        self.membership_watch.look()
        if self.team_roles.note_typed():
            self._on_change()

    def _remind(self, report: SyncReport) -> None:
        if report.ending and self.membership_watch.remind(report.ending):
            self.mail_queue.wake_all()

    def _on_list_finished(self, report: ListReport) -> None:
        self.metrics.count_list(report)
        self.profiles.wake()
        for delivery in self.deliveries:
            delivery.wake()
        self.events.wake()

    def _on_change(self) -> None:
        for delivery in self.deliveries:
            delivery.wake()
        self.sync.wake_allowlist()
        self.events.wake()
        self.application_streams.wake()

    async def deliver(self) -> None:
        """Deliver mails, webhook calls and console commands until `stop_delivering`; an outage of one delays none.

        The allowlist follows decisions in the same way, until `sync.stop`, and Minecraft accounts are looked up for it.
        """
        deliver = [delivery.run() for delivery in self.deliveries]
        deliver += [updates.run() for updates in self.team_chat.telegram]
        await asyncio.gather(*deliver, self.sync.follow_decisions(), self.profiles.run())

    def stop_delivering(self) -> None:
        """Start no further attempts. Called on the event loop."""
        telegram = self.team_chat.telegram
        for stop in (self.profiles.stop, *(it.stop for it in self.deliveries), *(it.stop for it in telegram)):
            stop()

    def follow_database(self) -> None:
        """Follow the settings, and make due what waited for what is known, or connected, by now. Blocking."""
        self.settings.follow()
        self.settings.follow_team()
        self.console.hasten()
        self.team_chat.hasten()

    def open(self, *, is_open: bool = True) -> None:
        """Let services run, since the database has our tables, or keep them from it: clients get 503."""
        for worker in self._workers:
            worker.is_open = is_open

    def end_streams(self) -> None:
        """End all live streams, and every one opened later."""
        self.events.close()
        self.team_chat.close()
        self.application_streams.close()

    async def follow_installation(self) -> None:
        """Let no service write to files that were removed under this process, until those are back."""
        if not self.installation.is_lost:  # a write refused meanwhile was refused by the files that were moved
            self.worker.outage_log.allow_write()
        self.open(is_open=not self.installation.is_lost)

    def _needs_second_factor(self, rights: Rights) -> bool:
        return self.live.current.auth.needs_totp(is_operator=rights.is_operator)

    def _may_go_on_listening(self, session: VerifiedSession) -> bool:
        is_token = session.audience == "token"
        return (self.api_tokens.is_still_valid if is_token else self.sessions.is_still_admin)(session)

    def purge_expired(self) -> None:
        """Delete what has expired. Blocking; each line is its own statement."""
        self.sessions.purge_expired()
        self.known_clients.purge()
        self.limits.purge()
        self.codes.purge_expired()
        self.links.purge_expired()
        self.questionnaire_results.purge_expired()
        self.chat_requests.purge_expired()
        self.chat_links.purge_expired()
        self.team_accounts.purge_expired()
        self.invitations.purge(self._config.retention.audit)
        self.notes.forget_readers()
        purge_messages(self._now, self._config.retention.outbox)

    def start_clock(self) -> None:
        """Let a clock that was set back while no daemon ran count as set now. Blocking."""
        times = self.audit.find_newest_time(), self.outbox.find_newest_time()
        self.clock.restart(max((time for time in times if time is not None), default=None))

    def follow_clock(self) -> None:
        """If the clock was set, keep what is stored from waiting, or living, for that long. Blocking."""
        step = self.clock.find_step()
        if not step:
            return
        is_back = step < timedelta()
        log.warning("the clock was set %s by %s", "back" if is_back else "forward", format_roughly(abs(step)))
        with self._database.atomic():
            for delivery in self.deliveries:
                delivery.follow_clock(step)
        if is_back:
            self.purge_expired()
        self.clock.restart()
        self._on_change()

    def close(self) -> None:
        """Let work on threads finish, but for lists that wait; then close every connection. Blocking."""
        self.list_worker.is_open = False
        for worker in self._workers:
            worker.close()
        if self.allowlist is not None:
            self.allowlist.close()
        self.hash_pool.close()
        self.captcha_pool.close()
