"""The config and services that handlers use, wired once when the process starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from plugin_bridge.authme.rules import NameRule, PasswordRule
from regsvc.accounts.captcha.captcha import Captchas
from regsvc.accounts.decisions import Decisions
from regsvc.accounts.email_changes import EmailChanges
from regsvc.accounts.email_verification import EmailVerification
from regsvc.accounts.login import Logins
from regsvc.accounts.password_changes import PasswordChanges, PasswordMails
from regsvc.accounts.second_factor import SecondFactorSetup
from regsvc.accounts.self_deletion import SelfDeletion, SessionEnding
from regsvc.accounts.status_lookup import StatusLookup
from regsvc.accounts.team import TeamRoles
from regsvc.accounts.team_credentials import TeamCredentials
from regsvc.auth.api_tokens import ApiTokens
from regsvc.auth.invitations import Invitations
from regsvc.auth.rate_limits import StatusRateLimits
from regsvc.auth.sessions import Sessions
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.i18n.translations import Translations
from regsvc.core.shared_lookup import CachedCall
from regsvc.database.audit import Audit
from regsvc.notifications.mail.history import MailResender
from regsvc.notifications.mail.queue import MailQueue
from regsvc.registration.applications.changes import ApplicationChanges
from regsvc.registration.applications.status import Applications
from regsvc.registration.applications.streams import ApplicationStreams
from regsvc.registration.chat.linking import ChatLinking
from regsvc.registration.questionnaire.service import Questionnaires
from regsvc.registration.registration import Registration
from regsvc.runtime.event_streams import EventStreams
from regsvc.runtime.game_status import GameStatus
from regsvc.runtime.health import Health
from regsvc.runtime.join_facts import WhyNot
from regsvc.runtime.metrics import Metrics
from regsvc.runtime.settings import ServerSettings
from regsvc.runtime.updates import Updates
from regsvc.sync.service import SyncService
from regsvc.team_chat.service import TeamChats
from regsvc.users.export import UserExport
from regsvc.users.gates import Gates
from regsvc.users.notes import Notes
from regsvc.users.user_details import UserDetailsLoader
from regsvc.users.user_list import UserList

if TYPE_CHECKING:
    from regsvc.doctor.checkup import Checkup

P = ParamSpec("P")
T = TypeVar("T")


class BlockingRunner(Protocol):
    """Runner of blocking code outside the event loop (`regsvc.database.engine.Worker`)."""

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the whole function on a worker thread; return its result or raise its exception."""


class Services:
    """The services that handlers call, one per attribute; each is assigned when the process starts."""

    live: LiveConfig
    worker: BlockingRunner
    list_worker: BlockingRunner
    translations: Translations
    settings: ServerSettings
    sessions: Sessions
    api_tokens: ApiTokens
    invitations: Invitations
    team_roles: TeamRoles
    team_accounts: TeamAccounts
    team_credentials: TeamCredentials
    team_chat: TeamChats
    gates: Gates
    verification: EmailVerification
    registration: Registration
    applications: Applications
    application_streams: ApplicationStreams
    application_changes: ApplicationChanges
    logins: Logins
    captchas: Captchas
    decisions: Decisions
    password_changes: PasswordChanges
    password_mails: PasswordMails
    questionnaires: Questionnaires
    chat: ChatLinking
    email_changes: EmailChanges
    user_export: UserExport
    self_deletion: SelfDeletion
    session_ending: SessionEnding
    second_factor: SecondFactorSetup
    users: UserList
    notes: Notes
    why_not: WhyNot
    user_details: UserDetailsLoader
    audit: Audit
    sync: SyncService
    statuses: StatusLookup
    status_limits: StatusRateLimits
    mail_queue: MailQueue
    mail_resender: MailResender
    health: Health
    metrics: Metrics
    updates: Updates
    plugin_version: CachedCall[str | None]
    game_status: GameStatus
    network: Mapping[str, GameStatus]
    """The status of each game server by name, the main one first; empty if there is only one."""
    doctor: CachedCall[tuple[Checkup, datetime]]
    events: EventStreams

    @property
    def config(self) -> Config:
        """The config in force now."""
        return self.live.current

    @property
    def name_rule(self) -> NameRule:
        """AuthMe's rule for names in force now."""
        return self.live.authme.names

    @property
    def password_rule(self) -> PasswordRule:
        """AuthMe's rule for passwords in force now."""
        return self.live.authme.passwords
