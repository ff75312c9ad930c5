"""Chat links, wired."""

from dataclasses import dataclass

from regsvc.accounts.login import Logins
from regsvc.app.context import AppContext
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.registration.chat.auth_requests import AuthorizationRequests
from regsvc.registration.chat.linking import Chat, ChatLinking, NoChat
from regsvc.registration.chat.provider import ChatProvider, describe_provider
from regsvc.registration.chat.step import ChatStep
from regsvc.registration.chat.unlinking import ChatUnlinking
from regsvc.registration.steps import RegistrationStep
from regsvc.users.chat_links import ChatLinks


@dataclass(frozen=True)
class ChatParts:
    """What the routes call, what a registration has to bring, and what is tidied up."""

    chat: Chat
    steps: tuple[RegistrationStep, ...]
    links: ChatLinks
    requests: AuthorizationRequests

    def purge_expired(self) -> None:
        """Remove what nobody finished or claimed in time. Blocking; each line is a statement of its own."""
        self.requests.purge_expired()
        self.links.purge_expired()


def wire_chat(
    context: AppContext, worker: Worker, audit: Audit, logins: Logins, codes: VerificationCodes, base_url: str
) -> ChatParts:
    """`base_url`: where players reach us, and so does the provider's answer."""
    config, now, database = context.config.chat, context.now, context.location.database
    secrets = DerivedSecrets(context.keys.installation_key)
    links, requests = ChatLinks(secrets, audit, now), AuthorizationRequests(secrets, now)
    if not config.platform:
        return ChatParts(NoChat(), (), links, requests)
    chat = ChatLinking(
        database=database,
        worker=worker,
        provider=ChatProvider(describe_provider(config, base_url), config.timeout),
        requests=requests,
        links=links,
        unlinking=ChatUnlinking(database, worker, links, logins, codes),
        limits=MemoryLimits(now),
        limits_per_client=config.limits_per_client,
    )
    return ChatParts(chat, (ChatStep(links, is_required=config.required),), links, requests)
