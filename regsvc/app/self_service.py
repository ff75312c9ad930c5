"""What users do about their own account, beside their password; wired in one place."""

from regsvc.accounts.email_changes import EmailChanges
from regsvc.accounts.login import Logins
from regsvc.accounts.self_deletion import SelfDeletion
from regsvc.accounts.self_service import SelfService
from regsvc.app.context import AppContext
from regsvc.app.mail import MailParts
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.registration.questionnaire.service import Questionnaires
from regsvc.sync.reconciler import Reconciler
from regsvc.users.chat_links import ChatLinks
from regsvc.users.export import UserExport
from regsvc.users.transitions import Transitions


def wire_self_service(
    context: AppContext,
    worker: Worker,
    mail_parts: MailParts,
    logins: Logins,
    reconciler: Reconciler,
    transitions: Transitions,
    audit: Audit,
    chat_links: ChatLinks,
    questionnaires: Questionnaires,
) -> SelfService:
    """As the config says."""
    config, database, now = context.config.registration, context.location.database, context.now
    return SelfService(
        email_changes=EmailChanges(
            database=database,
            worker=worker,
            logins=logins,
            codes=mail_parts.codes,
            email_policy=mail_parts.email_policy,
            links=mail_parts.links,
            mail_queue=mail_parts.mail_queue,
            reconciler=reconciler,
            audit=audit,
        ),
        export=UserExport(audit, chat_links.find_of, questionnaires.find_result_of, now),
        deletion=SelfDeletion(
            database=database,
            worker=worker,
            logins=logins,
            reconciler=reconciler,
            transitions=transitions,
            mail_queue=mail_parts.mail_queue,
            is_operator=lambda username: username.lower() in context.ops.names(),
            reapply_after=config.reapply_after,
            now=now,
        ),
    )
