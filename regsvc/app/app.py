"""The application: all services of one process, wired feature by feature."""

from datetime import timedelta

from regsvc.api.services import Services
from regsvc.app.accounts import wire_accounts
from regsvc.app.auth import wire_auth
from regsvc.app.captcha import wire_captcha
from regsvc.app.chat import wire_chat
from regsvc.app.context import AppContext
from regsvc.app.game import wire_game
from regsvc.app.mail import wire_mail
from regsvc.app.passwords import wire_passwords
from regsvc.app.questionnaire import wire_questionnaire
from regsvc.app.registration import wire_registration
from regsvc.app.runtime import wire_runtime
from regsvc.app.self_service import wire_self_service
from regsvc.app.sync import wire_sync
from regsvc.auth.rate_limits import MemoryLimits, StatusRateLimits
from regsvc.core.addresses import network_matcher
from regsvc.doctor.cached_checkup import CachedCheckup
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Host
from regsvc.doctor.facts.running_daemon import RunningDaemon
from regsvc.notifications.mail.history import MailHistory, MailResender
from regsvc.runtime.event_streams import EventStreams
from regsvc.runtime.events import EventLog
from regsvc.runtime.health import Health
from regsvc.runtime.installation import InstallationWatch
from regsvc.runtime.metrics import ProcessCollector, QueueCollector
from regsvc.runtime.waiting_work import WaitingWork
from regsvc.sync.report import SyncReport
from regsvc.users.export import UserExport
from regsvc.users.user_details import UserDetailsLoader
from regsvc.users.user_list import UserList

_LIMITS_KEPT = timedelta(days=2)


class App:
    """All services of one process. `base_url`: where players reach it."""

    def __init__(self, context: AppContext, base_url: str) -> None:
        self.context = context
        self.runtime_parts = runtime = wire_runtime(context)
        self.live, self.worker = runtime.live, runtime.worker
        self.installation = InstallationWatch(context.config.server.state_dir, context.location.file)
        self.auth_parts = auth = wire_auth(context)
        self.events = EventStreams(self.worker, EventLog(), auth.sessions.is_still_admin)
        self.mail_parts = mail = wire_mail(context, runtime, auth, base_url, self._on_change)
        self.password_parts = passwords = wire_passwords(context, self.live)
        runtime.metrics.register(ProcessCollector(), QueueCollector(self.worker, passwords.pool, runtime.loop_lag))
        self.sync_parts = sync = wire_sync(context, runtime, auth, mail.mail_queue, self._on_sync_finished)
        self.sync, self.reconciler = sync.service, sync.reconciler
        self.captcha_parts = wire_captcha(context)
        captchas = self.captcha_parts.captchas
        self.account_parts = accounts = wire_accounts(context, runtime, auth, mail, passwords, sync, captchas)
        self.chat_parts = chat = wire_chat(context, runtime, mail, accounts.checker, auth.audit)
        self.questionnaires = wire_questionnaire(context, runtime, auth.limits, mail.codes.proofs)
        steps = [*self.questionnaires.steps, *chat.steps]
        self.registration_parts = registration = wire_registration(
            context, runtime, auth, mail, passwords, sync, captchas, self.questionnaires, steps
        )
        export = UserExport(auth.audit, chat.links.find_of, self.questionnaires.find_result_of, context.now)
        self.self_service = wire_self_service(
            context, runtime, auth, mail, accounts, registration.verification, sync.reconciler, export
        )
        self.game_parts = wire_game(context)
        self.services = self._wire_services()

    def _wire_services(self) -> Services:
        context, runtime, mail, accounts = self.context, self.runtime_parts, self.mail_parts, self.account_parts
        audit = self.auth_parts.audit
        is_bridge_on, now = context.location.players.is_enabled, context.now
        is_trusted = network_matcher(context.config.http.trusted_clients)
        users = UserList(now, context.is_operator, is_bridge_on=is_bridge_on)
        return Services(
            live=self.live,
            worker=self.worker,
            translations=runtime.translations,
            sessions=self.auth_parts.sessions,
            is_authme_enabled=is_bridge_on,
            verification=self.registration_parts.verification,
            registration=self.registration_parts.registration,
            applications=self.registration_parts.applications,
            logins=accounts.logins,
            captchas=self.captcha_parts.captchas,
            accounts=accounts.accounts,
            password_changes=accounts.password_changes,
            password_mails=accounts.password_mails,
            password_handover=accounts.password_handover,
            questionnaires=self.questionnaires,
            chat=self.chat_parts.chat,
            self_service=self.self_service,
            users=users,
            user_details=UserDetailsLoader(users, self.questionnaires.find_result_of, now),
            audit=audit,
            sync=self.sync,
            statuses=accounts.statuses,
            status_limits=StatusRateLimits(MemoryLimits(now), self.live, is_trusted),
            mail_queue=mail.mail_queue,
            mail_history=MailHistory(),
            mail_resender=MailResender(context.location.database, mail.outbox, mail.renderer, mail.mail_queue, audit),
            health=Health(
                self.worker,
                mail.outbox,
                self.sync,
                now,
                runtime.pending_restart,
                self.installation,
                is_bridge_on=is_bridge_on,
            ),
            waiting_work=WaitingWork(self.worker),
            metrics=runtime.metrics,
            updates=self.game_parts.updates,
            plugin=self.game_parts.plugin,
            game_status=self.game_parts.game_status,
            network=self.game_parts.network,
            doctor=CachedCheckup(self._gather_facts, now),
            events=self.events,
        )

    def _gather_facts(self) -> Facts:
        """Return what the doctor starts from. On the event loop."""
        config, report = self.live.current, self.sync.last_report
        is_braked = report is not None and report.held_back is not None
        restart_needed = self.runtime_parts.pending_restart.keys
        running_daemon = RunningDaemon(
            config.address(),
            is_companion=True,
            has_held_back_changes=is_braked,
            restart_needed=restart_needed,
            is_state_lost=self.installation.is_lost,
            seconds_since_sync=self.sync.seconds_since_run,
        )
        return Facts(config, Host(now=self.context.now), running_daemon)

    def _on_sync_finished(self, report: SyncReport) -> None:
        self.runtime_parts.metrics.count_sync(report)
        self.mail_parts.mail_queue.wake()
        self.events.publish_run(report)
        self.registration_parts.applications.streams.wake()

    def _on_change(self) -> None:
        self.runtime_parts.delivery_workers.wake()
        self.events.wake()
        self.registration_parts.applications.streams.wake()

    def open(self) -> None:
        """Let services run: the database has our tables."""
        self.runtime_parts.open()

    def end_streams(self) -> None:
        """End all live streams, and every one opened later."""
        self.events.close()
        self.registration_parts.applications.streams.close()

    def watch_installation(self) -> None:
        """Let no service write to files that were removed under this process, until those are back. Blocking."""
        was_lost = self.installation.is_lost
        if self.worker.is_open and not self.installation.check():
            self.runtime_parts.pause()
        elif was_lost and self.installation.check():
            self.runtime_parts.open()

    def purge_expired(self) -> None:
        """Delete what has expired. Blocking; each line is its own statement."""
        now = self.context.now()
        self.auth_parts.sessions.purge_expired()
        self.auth_parts.known_clients.purge()
        self.auth_parts.limits.purge(now - _LIMITS_KEPT)
        self.mail_parts.codes.purge_expired()
        self.mail_parts.links.purge_expired()
        self.questionnaires.purge_expired()
        self.chat_parts.purge_expired()
        self.mail_parts.outbox.purge_done(now - self.context.config.retention.outbox)

    def close(self) -> None:
        """Let work on threads finish, then close every connection. Blocking."""
        self.runtime_parts.close()
        self.password_parts.pool.close()
        self.captcha_parts.pool.close()
