"""Wiring of logins and decisions."""

from dataclasses import dataclass

from regsvc.accounts.access import AccountAccess, PlayerWarnings
from regsvc.accounts.captcha.captcha import Captchas
from regsvc.accounts.decisions import Accounts
from regsvc.accounts.login import Logins, LoginSessions
from regsvc.accounts.password_changes import PasswordChanges, PasswordHandover, PasswordMails
from regsvc.accounts.password_checker import LoginLookup, PasswordChecker
from regsvc.accounts.password_store import PasswordStore
from regsvc.accounts.status_lookup import StatusLookup
from regsvc.app.auth import AuthParts
from regsvc.app.context import AppContext
from regsvc.app.mail import MailParts
from regsvc.app.passwords import PasswordParts
from regsvc.app.runtime import RuntimeParts
from regsvc.app.sync import SyncParts
from regsvc.auth.login_limits import LoginDelays, LoginLimits
from regsvc.auth.rate_limits import MemoryLimits


@dataclass(frozen=True)
class AccountParts:
    """Decisions, logins and passwords."""

    access: AccountAccess
    accounts: Accounts
    checker: PasswordChecker
    logins: Logins
    password_changes: PasswordChanges
    password_mails: PasswordMails
    password_handover: PasswordHandover
    statuses: StatusLookup


def wire_accounts(
    context: AppContext,
    runtime: RuntimeParts,
    auth: AuthParts,
    mail: MailParts,
    passwords: PasswordParts,
    sync: SyncParts,
    captchas: Captchas,
) -> AccountParts:
    database, now, worker, reconciler = context.location.database, context.now, runtime.worker, sync.reconciler
    access = AccountAccess(database, reconciler, context.level_of)
    warnings = PlayerWarnings(context.location.players.is_enabled, sync.console, runtime.live)
    limits = LoginLimits(MemoryLimits(now), MemoryLimits(now), LoginDelays(now), runtime.live)
    lookup = LoginLookup(reconciler, auth.known_clients, auth.second_factors)
    checker = PasswordChecker(worker, lookup, passwords.hashing, limits, auth.audit, auth.second_factors, now)
    sessions = LoginSessions(auth.sessions, auth.known_clients, auth.audit, context.is_operator, runtime.live, now)
    store = PasswordStore(access, reconciler, auth.sessions, mail.links, warnings, auth.audit, now)
    return AccountParts(
        access=access,
        accounts=Accounts(access, reconciler, sync.transitions, warnings, mail.mail_queue, now),
        checker=checker,
        logins=Logins(database, worker, checker, captchas, access, reconciler, sessions),
        password_changes=PasswordChanges(
            worker, passwords.hashing, store, checker, mail.links, auth.known_clients, passwords.rules
        ),
        password_mails=PasswordMails(
            database, worker, mail.mail_queue, mail.forgot_limits, store, passwords.rules, captchas
        ),
        password_handover=PasswordHandover(database, store, mail.links, auth.audit, mail.base_url),
        statuses=StatusLookup(database, worker, mail.codes.proofs, runtime.live, now),
    )
