"""Chat links, wired."""

from dataclasses import dataclass

from regsvc.audit import Audit
from regsvc.chat import ChatLinks
from regsvc.chat_flow import Chat, ChatLinking, NoChat
from regsvc.chat_provider import ChatProvider, describe_provider
from regsvc.chat_registration import ChatStep
from regsvc.chat_requests import AuthorizationRequests
from regsvc.chat_unlinking import ChatUnlinking
from regsvc.db import Worker
from regsvc.derived import DerivedSecrets
from regsvc.ground import Ground
from regsvc.logins import Logins
from regsvc.ratelimit import MemoryLimits
from regsvc.registration_steps import RegistrationStep
from regsvc.verification import VerificationCodes


@dataclass(frozen=True)
class ChatRoom:
    """What the routes call, what a registration has to bring, and what is tidied up."""

    chat: Chat
    steps: tuple[RegistrationStep, ...]
    links: ChatLinks
    requests: AuthorizationRequests

    def purge_dead(self) -> None:
        """Remove what nobody finished or claimed in time. Blocking; each line is a statement of its own."""
        self.requests.purge_dead()
        self.links.purge_dead()


def open_chat_room(
    ground: Ground, worker: Worker, audit: Audit, logins: Logins, codes: VerificationCodes, base_url: str
) -> ChatRoom:
    """`base_url`: where players reach us, and so does the provider's answer."""
    config, now, database = ground.config.chat, ground.now, ground.home.database
    secrets = DerivedSecrets(ground.keys.installation_key)
    links, requests = ChatLinks(secrets, audit, now), AuthorizationRequests(secrets, now)
    if not config.platform:
        return ChatRoom(NoChat(), (), links, requests)
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
    return ChatRoom(chat, (ChatStep(links, is_required=config.required),), links, requests)
