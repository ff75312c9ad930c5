"""What users do about their own account, beside their password; wired in one place."""

from regsvc.accounts.email_changes import EmailChanges
from regsvc.accounts.login import Logins
from regsvc.accounts.self_deletion import OwnDeletion
from regsvc.accounts.self_service import SelfService
from regsvc.app.context import Ground
from regsvc.app.mail import MailRoom
from regsvc.core.email_address import EmailPolicy
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.registration.questionnaire.service import Questionnaires
from regsvc.sync.reconciler import Reconciler
from regsvc.users.chat_links import ChatLinks
from regsvc.users.export import UserExport
from regsvc.users.transitions import Transitions


def open_self_service(
    ground: Ground,
    worker: Worker,
    mail_room: MailRoom,
    logins: Logins,
    reconciler: Reconciler,
    transitions: Transitions,
    audit: Audit,
    chat_links: ChatLinks,
    questionnaires: Questionnaires,
) -> SelfService:
    """As the config says."""
    config, database, now = ground.config.registration, ground.home.database, ground.now
    policy = EmailPolicy(config.email_domains, config.blocked_email_domains, accepts_aliases=config.email_aliases)
    return SelfService(
        email_changes=EmailChanges(
            database=database,
            worker=worker,
            logins=logins,
            codes=mail_room.codes,
            email_policy=policy,
            links=mail_room.links,
            mails=mail_room.mails,
            reconciler=reconciler,
            audit=audit,
        ),
        export=UserExport(audit, chat_links.find_of, questionnaires.find_result_of, now),
        deletion=OwnDeletion(
            database=database,
            worker=worker,
            logins=logins,
            reconciler=reconciler,
            transitions=transitions,
            mails=mail_room.mails,
            is_operator=lambda username: username.lower() in ground.ops.names(),
            reapply_after=config.reapply_after,
            now=now,
        ),
    )
