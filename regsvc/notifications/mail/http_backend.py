"""Backend that sends mails through a service that is called over HTTP (`mail.backend = "http"`).

No error repeats what the service wrote: that may quote our key, or the mail with its code.
"""

import hashlib
import ssl
import uuid
from abc import ABC, abstractmethod
from datetime import timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parseaddr
from typing import ClassVar, Final

from regsvc.config.sections import MailSection
from regsvc.config.value_checks import parse_body_template
from regsvc.core import clock
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.core.http_client import HttpClient, LostAnswer, NoResponse, PrivateAddress, Response
from regsvc.notifications.mail.http_services import (
    ApiMail,
    ApiRequest,
    Brevo,
    GenericService,
    Mailgun,
    MailService,
    Resend,
)


class PermanentMailFailure(Exception):
    """The server will never accept this mail; `str()` is the server's reply."""


class TemporaryMailFailure(Exception):
    """The server does not accept this mail now; `str()` is the server's reply."""

    def __init__(self, reply: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the server asked for; None: it named none."""
        super().__init__(reply)
        self.retry_after = retry_after


class MailServerUnavailable(Exception):
    """No mail can be sent at the moment, to any recipient; `str()` gives the reason."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the server asked for; None: it named none."""
        super().__init__(reason)
        self.retry_after = retry_after


class MailBackend(ABC):
    """Interface of mail backends. `sender` is their From address, with or without a display name."""

    is_available: ClassVar[bool] = True

    def __init__(self, sender: str) -> None:
        self.sender = sender

    @abstractmethod
    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        """Send the mail; returns once it has been accepted.

        Raises `PermanentMailFailure`, `TemporaryMailFailure` or `MailServerUnavailable`.
        """

    async def find_problem(self, limit: timedelta) -> str | None:
        """Return why no mail can be sent now and what to do, or None. Sends nothing; takes `limit` at most."""
        return None


_TIMEOUT: Final = timedelta(seconds=30)  # of a whole request
_KEPT: Final = 4096  # bytes of an answer: enough for its error code
_KEY_NAMESPACE: Final = uuid.UUID("6c1f2a0e-6f0b-4d0e-9a55-0d6d4b0a7f21")
_LIMITED: Final = 429  # requests a second, or mails a day: it holds for every mail
_CONFLICT: Final = 409  # an earlier request with the same idempotency key is still in progress


class HttpBackend(MailBackend):
    """Backend that posts each mail to a service.

    `tls` replaces the system's certificates (None); `allows_private`: the service may be in a private network.
    """

    def __init__(
        self,
        sender: str,
        service: MailService,
        tls: ssl.SSLContext | None = None,
        *,
        allows_private: bool = False,
        now: Clock = clock.now,
    ) -> None:
        super().__init__(sender)
        self._service = service
        self._tls = tls
        self._allows_private = allows_private
        self._now = now

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        request = self._service.send_request(_parts_of(message, recipient))
        try:
            response = await self._request(request, _TIMEOUT)
        except LostAnswer as error:  # counts as an attempt: the mail may have been accepted
            raise TemporaryMailFailure(f"{self._service.title}: {error}") from None
        if self._service.has_mail(response):
            return
        if advice := self._service.refuses_us(response):
            raise MailServerUnavailable(f"{self._service.title} {advice}")
        reply = f"{self._service.title} answers {response.describe()}"
        if response.status == _LIMITED:
            raise MailServerUnavailable(f"{reply}: a limit of the account is reached", self._wait(response))
        if response.is_temporary or response.status == _CONFLICT:
            raise TemporaryMailFailure(reply, self._wait(response))
        raise PermanentMailFailure(f"{reply}: it refuses the mail, its recipient or mail.sender")

    async def find_problem(self, limit: timedelta) -> str | None:
        try:
            response = await self._request(self._service.probe_request(), limit)
        except MailServerUnavailable as problem:
            return str(problem)
        except LostAnswer as error:
            return f"{self._service.title}: {error}"
        if self._service.accepts_probe(response):
            return None
        advice = self._service.refuses_us(response) or f"answers {response.describe()}; try again later"
        return f"{self._service.title} {advice}"

    async def _request(self, request: ApiRequest, limit: timedelta) -> Response:
        """Raises `LostAnswer`, and `MailServerUnavailable` if the request cannot have arrived."""
        title = self._service.title
        with HttpClient(limit, public_only=not self._allows_private, tls=self._tls) as client:
            try:
                if request.body is None:
                    return await client.get(request.url, request.headers)
                return await client.post_for_head(request.url, request.headers, request.body, keep=_KEPT)
            except PrivateAddress as error:
                raise MailServerUnavailable(f"{title} cannot be used: {error}; see mail.http_allow_private") from None
            except LostAnswer:
                raise
            except NoResponse as error:
                then = "check mail.http_url, and firewalls on the way"
                raise MailServerUnavailable(f"{title} cannot be reached: {error}; {then}") from None

    def _wait(self, response: Response) -> timedelta | None:
        moment = self._now()
        return response.retry_after(moment) or response.retry_after(moment, self._service.wait_header)


def make_mail_service(config: MailSection) -> MailService:
    """Return the service that `mail.http_provider` names."""
    url, key = config.http_url, config.http_key
    match config.http_provider:
        case "resend":
            return Resend(url or Resend.default_url, key)
        case "mailgun":
            domain = parseaddr(config.sender)[1].rpartition("@")[2]
            return Mailgun(url or Mailgun.default_url(domain), key)
        case "brevo":
            return Brevo(url or Brevo.default_url, key)
        case _:
            return GenericService(url, key, config.http_header, parse_body_template(config.http_body))


def _parts_of(message: EmailMessage, recipient: EmailAddress) -> ApiMail:
    """Return the parts of the mail. Raises `PermanentMailFailure` for a recipient that could be read as several."""
    address = recipient.envelope
    if '"' in address:
        raise PermanentMailFailure("an address with quotes cannot be passed to a service safely")
    sender = message["From"].addresses[0]
    plain = message.get_body(("plain",))
    rich = message.get_body(("html",))
    text = "" if plain is None else plain.get_content()
    html = None if rich is None else rich.get_content()
    message_id = str(message["Message-ID"] or "")
    subject = str(message["Subject"])
    content = "\0".join((message_id, str(sender), address, subject, text, html or ""))
    return ApiMail(
        sender=Address(sender.display_name, addr_spec=sender.addr_spec),
        recipient=address,
        subject=subject,
        text=text,
        html=html,
        message_id=message_id,
        attempt_key=str(uuid.uuid5(_KEY_NAMESPACE, hashlib.sha256(content.encode("utf-8")).hexdigest())),
    )
