"""What handlers get: the config and the services, wired once when the process starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from plugin_bridge.rules import NameRule, PasswordRule
from regsvc.accounts import Accounts
from regsvc.admin_users import UserList
from regsvc.audit import Audit
from regsvc.captcha import Captchas
from regsvc.chat_flow import Chat
from regsvc.config import Config
from regsvc.doctor.in_house import HouseDoctor
from regsvc.event_streams import EventStreams
from regsvc.game_status import GameStatus
from regsvc.health import Health
from regsvc.i18n import Translations
from regsvc.installed_plugin import InstalledPlugin
from regsvc.logins import Logins
from regsvc.mail_list import MailList
from regsvc.mails import Mails
from regsvc.metrics import Metrics
from regsvc.password_changes import PasswordChanges
from regsvc.questionnaire_service import Questionnaires
from regsvc.records import Caller, Session
from regsvc.registration import Registration
from regsvc.resending import Resending
from regsvc.self_service import SelfService
from regsvc.status_limits import StatusLimits
from regsvc.sync.service import SyncService
from regsvc.updates import Updates
from regsvc.user_details import UserDetails

P = ParamSpec("P")
T = TypeVar("T")


class RunsRules(Protocol):
    """The door to blocking code (`regsvc.db.Worker`)."""

    async def run(self, rule: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the rule returns, run whole on a worker thread. Raises what it raises."""


class Authenticates(Protocol):
    """Verifies access tokens. Rules: they block and run on a worker thread."""

    def authenticate(self, bearer: str) -> Session:
        """The session behind a token of either audience; raises Unauthorized."""

    def authenticate_admin(self, bearer: str, caller: Caller, *, is_activity: bool = True) -> Session:
        """The same on admin routes; raises Forbidden, with an audit entry, where the right is missing.

        Without `is_activity` an idle admin's time goes on running.
        """


@dataclass(frozen=True, slots=True)
class Services:
    """One field for each service a handler calls."""

    config: Config
    worker: RunsRules
    translations: Translations
    tokens: Authenticates
    name_rule: NameRule
    password_rule: PasswordRule
    is_authme_enabled: bool
    registration: Registration
    logins: Logins
    captchas: Captchas
    accounts: Accounts
    password_changes: PasswordChanges
    questionnaires: Questionnaires
    chat: Chat
    self_service: SelfService
    users: UserList
    user_details: UserDetails
    audit: Audit
    sync: SyncService
    status_limits: StatusLimits
    mails: Mails
    mail_list: MailList
    resending: Resending
    health: Health
    metrics: Metrics
    updates: Updates
    plugin: InstalledPlugin
    game_status: GameStatus
    doctor: HouseDoctor
    events: EventStreams
