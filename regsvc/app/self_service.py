"""Wiring of what users do about their own account, apart from the password."""

from regsvc.accounts.email_changes import EmailChanges
from regsvc.accounts.email_verification import EmailVerification
from regsvc.accounts.player_totp import PlayerTotp
from regsvc.accounts.second_factor_setup import SecondFactorNotices, SecondFactorSetup, SecondFactorStore
from regsvc.accounts.self_deletion import SelfDeletion, SessionEnding
from regsvc.accounts.self_service import SelfService
from regsvc.app.accounts import AccountParts
from regsvc.app.auth import AuthParts
from regsvc.app.context import AppContext
from regsvc.app.mail import MailParts
from regsvc.app.runtime import RuntimeParts
from regsvc.core.text import name_key
from regsvc.sync.reconciler import Reconciler
from regsvc.users.export import UserExport


def wire_self_service(
    context: AppContext,
    runtime: RuntimeParts,
    auth: AuthParts,
    mail: MailParts,
    accounts: AccountParts,
    verification: EmailVerification,
    reconciler: Reconciler,
    export: UserExport,
) -> SelfService:
    worker, player_totp = runtime.worker, PlayerTotp(context.location.players, reconciler)
    second_factor_store = SecondFactorStore(
        database=context.location.database,
        accounts=reconciler.accounts,
        checker=accounts.checker,
        second_factors=auth.second_factors,
        sessions=auth.sessions,
        player_totp=player_totp,
        notices=SecondFactorNotices(auth.audit, mail.mail_queue, auth.limits),
        now=context.now,
    )
    return SelfService(
        email_changes=EmailChanges(
            access=accounts.access,
            worker=worker,
            checker=accounts.checker,
            verification=verification,
            links=mail.links,
            mail_queue=mail.mail_queue,
            reconciler=reconciler,
            audit=auth.audit,
        ),
        export=export,
        deletion=SelfDeletion(
            access=accounts.access,
            worker=worker,
            checker=accounts.checker,
            accounts=accounts.accounts,
            mail_queue=mail.mail_queue,
            is_operator=lambda username: name_key(username) in context.ops.names(),
            live=runtime.live,
            now=context.now,
        ),
        sessions=SessionEnding(context.location.database, auth.sessions, accounts.access, auth.audit, context.now),
        second_factor=SecondFactorSetup(
            worker=worker,
            checker=accounts.checker,
            store=second_factor_store,
            player_totp=player_totp,
            is_operator=context.is_operator,
            live=runtime.live,
            wake=mail.mail_queue.wake,
        ),
        second_factor_store=second_factor_store,
    )
