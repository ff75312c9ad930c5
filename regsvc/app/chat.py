"""Wiring of chat links."""

from dataclasses import dataclass

from regsvc.accounts.password_checker import PasswordChecker
from regsvc.app.context import AppContext
from regsvc.app.mail import MailParts
from regsvc.app.runtime import RuntimeParts
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.database.audit import Audit
from regsvc.registration.chat.auth_requests import AuthorizationRequests
from regsvc.registration.chat.linking import Chat, ChatLinking, ChatStep, ChatUnlinking, NoChat
from regsvc.registration.chat.provider import ChatProvider, describe_provider
from regsvc.registration.validation import RegistrationStep
from regsvc.users.chat_links import ChatLinks


@dataclass(frozen=True)
class ChatParts:
    """The service behind the chat routes, its steps of a registration, and the stored links and requests."""

    chat: Chat
    steps: tuple[RegistrationStep, ...]
    links: ChatLinks
    requests: AuthorizationRequests

    def purge_expired(self) -> None:
        """Delete requests not finished and links not claimed in time. Blocking; each line is its own statement."""
        self.requests.purge_expired()
        self.links.purge_expired()


def wire_chat(
    context: AppContext, runtime: RuntimeParts, mail: MailParts, checker: PasswordChecker, audit: Audit
) -> ChatParts:
    config, now, database = context.config.chat, context.now, context.location.database
    secrets = DerivedSecrets(context.keys.installation_key)
    links, requests = ChatLinks(secrets, audit, now), AuthorizationRequests(secrets, now)
    if not config.platform:
        return ChatParts(NoChat(), (), links, requests)
    chat = ChatLinking(
        database=database,
        worker=runtime.worker,
        provider=ChatProvider(describe_provider(config, mail.base_url), config.timeout),
        requests=requests,
        links=links,
        unlinking=ChatUnlinking(database, runtime.worker, links, checker, mail.codes),
        limits=MemoryLimits(now),
        limits_per_client=config.limits_per_client,
    )
    return ChatParts(chat, (ChatStep(links, is_required=config.required),), links, requests)
