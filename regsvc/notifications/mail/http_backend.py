"""Sending mails through a service that is called over HTTP (`mail.backend = "http"`): what each expects and answers.

No error repeats what the service wrote: that may quote our key, or the mail with its code. Facts are from the services'
documentation; each class names the pages.
"""

import base64
import hashlib
import json
import ssl
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from typing import ClassVar, Final
from urllib.parse import quote, urlencode, urljoin, urlsplit

from plugin_bridge.text import decode_json
from regsvc.config.host_sections import MailSection
from regsvc.config.value_checks import BodyTemplate, parse_body_template
from regsvc.core import clock
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress, split_sender
from regsvc.core.http_response import LostAnswer, NoResponse, PrivateAddress, Response
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure, TransportUnavailable
from regsvc.notifications.mail.transport import MailBackend, judge_reply

_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_AUTOMATIC: Final = {"Auto-Submitted": "auto-generated"}  # RFC 3834: keeps holiday responders silent

_ADVICE: Final = {
    401: "refuses the key ({reply}): check mail.http_key",
    402: "has no credit left for us ({reply}): check the account's plan",
    403: "does not let us send ({reply}): check mail.http_key, and that the domain of mail.sender is verified there",
    404: "has nothing at this address ({reply}): check mail.http_url",
    405: "takes no mails at this address ({reply}): check mail.http_url",
}
"""What to do about an answer that concerns every mail, by status."""


@dataclass(frozen=True)
class ApiMail:
    """The parts of a mail. `message_id` and `attempt_key` are the same for each attempt to send the same content."""

    sender: Address
    recipient: str
    subject: str
    text: str = field(repr=False)
    html: str | None = field(repr=False)
    message_id: str
    attempt_key: str
    reply_to: str | None = None


@dataclass(frozen=True)
class ApiRequest:
    """A request to a service. `body` None: a GET request."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


class MailService(ABC):
    """Interface of services; `url` is where mails are posted, `title` what sentences call the service."""

    title: str
    wait_header: ClassVar[str] = "Retry-After"
    """Header with the wait that the service asks for."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._key = key

    @abstractmethod
    def send_request(self, mail: ApiMail) -> ApiRequest:
        """Return the request that sends the mail."""

    @abstractmethod
    def probe_request(self) -> ApiRequest:
        """Return a request that tells whether the service can be used, and sends no mail."""

    def accepts_probe(self, response: Response) -> bool:
        """Return whether the answer to the probe means that mails can be sent, as far as can be told."""
        return response.is_success

    def has_mail(self, response: Response) -> bool:
        """Return whether the answer means that the service has accepted the mail, now or at an earlier attempt."""
        return response.is_success

    def refuses_us(self, response: Response) -> str | None:
        """Return what to do, for an answer that every mail would get until it is done; None for any other."""
        if 300 <= response.status < 400:
            return f"redirects us ({response.describe()}): check mail.http_url"
        advice = self._advice.get(response.status)
        return advice and advice.format(reply=response.describe())

    @property
    def _advice(self) -> Mapping[int, str]:
        return _ADVICE


class Resend(MailService):
    """Resend.

    https://resend.com/docs/api-reference/emails/send-email: fields, bearer token, `Idempotency-Key` (for 24 hours).
    https://resend.com/docs/api-reference/errors: 401 and 403 for keys and for domains that are not verified, 409 while
    an earlier request with the same key is in progress. A wrong key may be a 400, too:
    https://github.com/resend/resend-node/pull/617.
    """

    title = "Resend"
    default_url: ClassVar[str] = "https://api.resend.com/emails"

    def send_request(self, mail: ApiMail) -> ApiRequest:
        body: dict[str, object] = {
            "from": str(mail.sender),
            "to": [mail.recipient],
            "subject": mail.subject,
            "text": mail.text,
            **_html("html", mail),
            "headers": _AUTOMATIC,
            **({"reply_to": mail.reply_to} if mail.reply_to else {}),
        }
        return ApiRequest(self.url, {**self._headers, "Idempotency-Key": mail.attempt_key}, _encode(body))

    def probe_request(self) -> ApiRequest:
        """https://resend.com/docs/api-reference/domains/list-domains."""
        return ApiRequest(urljoin(self.url, "domains"), self._headers)

    def accepts_probe(self, response: Response) -> bool:
        """A key that may only send is told so, which a wrong one is not."""
        return response.is_success or (response.status == 401 and _code(response, "name") == "restricted_api_key")

    def refuses_us(self, response: Response) -> str | None:
        if response.status == 400 and "api key is invalid" in _code(response, "message").lower():
            return _ADVICE[401].format(reply=response.describe())
        return super().refuses_us(response)

    @property
    def _headers(self) -> dict[str, str]:
        return {**_JSON, "Authorization": f"Bearer {self._key}"}


class Mailgun(MailService):
    """Mailgun. It has no idempotency keys; attempts have the same Message-Id.

    https://documentation.mailgun.com/docs/mailgun/api-reference: form fields, Basic authentication as `api`, regions.
    https://documentation.mailgun.com/docs/mailgun/quickstart-guide/responses: 401 and 403 for keys, 404 for domains,
    429. A domain of the other region is a 401 or 404: https://github.com/mailgun/mailgun-js-boland/issues/268.
    """

    title = "Mailgun"

    @staticmethod
    def default_url(domain: str) -> str:
        """Return the address for a domain in the US region."""
        return f"https://api.mailgun.net/v3/{quote(domain, safe='')}/messages"

    def send_request(self, mail: ApiMail) -> ApiRequest:
        fields = {
            "from": str(mail.sender),
            "to": mail.recipient,
            "subject": mail.subject,
            "text": mail.text,
            **_html("html", mail),
            "h:Message-Id": mail.message_id,
            "o:tracking": "no",  # it would rewrite links
            **({"h:Reply-To": mail.reply_to} if mail.reply_to else {}),
            **{f"h:{name}": value for name, value in _AUTOMATIC.items()},
        }
        return ApiRequest(self.url, self._headers, urlencode(fields).encode("ascii"))

    def probe_request(self) -> ApiRequest:
        """Post no fields at all: that is the only request which keys for sending alone may make, too."""
        return ApiRequest(self.url, self._headers, b"")

    def accepts_probe(self, response: Response) -> bool:
        """The key and the domain are checked first; then the fields, all of which are missing."""
        return response.status == 400

    @property
    def _headers(self) -> dict[str, str]:
        credentials = base64.b64encode(f"api:{self._key}".encode()).decode("ascii")
        return {**_FORM, "Authorization": f"Basic {credentials}"}

    @property
    def _advice(self) -> Mapping[int, str]:
        region = 'a domain of the EU region needs mail.http_url = "https://api.eu.mailgun.net/v3/DOMAIN/messages"'
        return {
            **_ADVICE,
            401: f"{_ADVICE[401]}; {region}",
            404: f"does not know the domain of mail.sender ({{reply}}): add it there; {region}",
        }


class Brevo(MailService):
    """Brevo.

    https://developers.brevo.com/reference/sendtransacemail: fields, header `api-key`.
    https://developers.brevo.com/docs/heterogenous-versions-batch-emails: `idempotencyKey`, a UUID, for 30 minutes; the
    second request with it is the error `duplicate_parameter`.
    https://developers.brevo.com/docs/limit-headers: 429 with `x-sib-ratelimit-reset` in seconds.
    """

    title = "Brevo"
    wait_header = "x-sib-ratelimit-reset"
    default_url: ClassVar[str] = "https://api.brevo.com/v3/smtp/email"

    def send_request(self, mail: ApiMail) -> ApiRequest:
        body: dict[str, object] = {
            "sender": {"name": mail.sender.display_name, "email": mail.sender.addr_spec},
            "to": [{"email": mail.recipient}],
            "subject": mail.subject,
            "textContent": mail.text,
            **_html("htmlContent", mail),
            "headers": {**_AUTOMATIC, "idempotencyKey": mail.attempt_key},
            **({"replyTo": {"email": mail.reply_to}} if mail.reply_to else {}),
        }
        return ApiRequest(self.url, self._headers, _encode(body))

    def probe_request(self) -> ApiRequest:
        """https://developers.brevo.com/reference/get-account."""
        return ApiRequest(urljoin(self.url, "../account"), self._headers)

    def has_mail(self, response: Response) -> bool:
        return response.is_success or (response.status == 400 and _code(response, "code") == "duplicate_parameter")

    @property
    def _headers(self) -> dict[str, str]:
        return {**_JSON, "api-key": self._key}

    @property
    def _advice(self) -> Mapping[int, str]:
        return {**_ADVICE, 401: f"{_ADVICE[401]}, and the authorized IP addresses of the account"}


class GenericService(MailService):
    """A service that the config describes: address, header and body."""

    def __init__(self, url: str, key: str, header: str, body: BodyTemplate) -> None:
        """`header`: name and value of the header with the key, where "{key}" stands for it."""
        super().__init__(url, key)
        self.title = urlsplit(url).hostname or "the service"
        self._header = header
        self._body = body

    def send_request(self, mail: ApiMail) -> ApiRequest:
        headers = {
            "Content-Type": self._body.content_type,
            "Accept": "application/json",
            "Idempotency-Key": mail.attempt_key,
        }
        if self._key:
            name, _colon, value = self._header.partition(":")
            headers[name.strip()] = value.strip().replace("{key}", self._key)
        return ApiRequest(self.url, headers, self._body.fill(_placeholders(mail)))

    def probe_request(self) -> ApiRequest:
        """Only whether there is a server can be found out: nothing is known of what it would answer."""
        return ApiRequest(self.url, {})

    def accepts_probe(self, response: Response) -> bool:
        return True


def _placeholders(mail: ApiMail) -> dict[str, str | None]:
    """Return the values of `MAIL_PLACEHOLDERS` (`regsvc/config/value_checks.py`)."""
    return {
        "from": str(mail.sender),
        "from_name": mail.sender.display_name,
        "from_email": mail.sender.addr_spec,
        "to": mail.recipient,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "id": mail.attempt_key,
        "reply_to": mail.reply_to,
    }


def _html(name: str, mail: ApiMail) -> dict[str, str]:
    return {} if mail.html is None else {name: mail.html}


def _encode(body: Mapping[str, object]) -> bytes:
    return json.dumps(body).encode("ascii")


def _code(response: Response, name: str) -> str:
    """Return a field of a JSON answer, or ""."""
    try:
        answer = decode_json(response.body)
    except ValueError:
        return ""
    value = answer.get(name) if isinstance(answer, dict) else None
    return value if isinstance(value, str) else ""


def _complaint(response: Response) -> str:
    """Return what a JSON answer says is wrong, without what it quotes, such as the mail."""
    return _code(response, "message").partition(":")[0]


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
            raise TemporaryFailure(f"{self._service.title}: {error}") from None
        if self._service.has_mail(response):
            return
        if advice := self._service.refuses_us(response):
            raise TransportUnavailable(f"{self._service.title} {advice}")
        reply = f"{self._service.title} answers {response.describe()}"
        if response.status == _LIMITED:
            raise TransportUnavailable(f"{reply}: a limit of the account is reached", self._wait(response))
        if response.is_temporary or response.status == _CONFLICT:
            raise TemporaryFailure(reply, self._wait(response))
        if judge_reply(response.status, _complaint(response), "recipient") == "account":
            raise TransportUnavailable(f"{reply}: it refuses the account or mail.sender", is_alleged=True)
        raise PermanentFailure(f"{reply}: it refuses the mail, its recipient or mail.sender")

    async def find_problem(self, limit: timedelta) -> str | None:
        try:
            response = await self._request(self._service.probe_request(), limit)
        except TransportUnavailable as problem:
            return str(problem)
        except LostAnswer as error:
            return f"{self._service.title}: {error}"
        if self._service.accepts_probe(response):
            return None
        advice = self._service.refuses_us(response) or f"answers {response.describe()}; try again later"
        return f"{self._service.title} {advice}"

    async def _request(self, request: ApiRequest, limit: timedelta) -> Response:
        """Raises `LostAnswer`, and `TransportUnavailable` if the request cannot have arrived."""
        from regsvc.core.http_client import HttpClient

        title = self._service.title
        with HttpClient(limit, public_only=not self._allows_private, tls=self._tls) as client:
            try:
                if request.body is None:
                    return await client.get(request.url, request.headers)
                return await client.post_for_head(request.url, request.headers, request.body, keep=_KEPT)
            except PrivateAddress as error:
                raise TransportUnavailable(f"{title} cannot be used: {error}; see mail.http_allow_private") from None
            except LostAnswer:
                raise
            except NoResponse as error:
                then = "check mail.http_url, and firewalls on the way"
                raise TransportUnavailable(f"{title} cannot be reached: {error}; {then}") from None

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
            domain = split_sender(config.sender)[1].rpartition("@")[2]
            return Mailgun(url or Mailgun.default_url(domain), key)
        case "brevo":
            return Brevo(url or Brevo.default_url, key)
        case _:
            return GenericService(url, key, config.http_header, parse_body_template(config.http_body))


def _parts_of(message: EmailMessage, recipient: EmailAddress) -> ApiMail:
    """Return the parts of the mail. Raises `PermanentFailure` for a recipient that could be read as several."""
    address = recipient.envelope
    if recipient.is_quoted:
        raise PermanentFailure("an address with quotes cannot be passed to a service safely")
    sender = message["From"].addresses[0]
    plain = message.get_body(("plain",))
    rich = message.get_body(("html",))
    text = "" if plain is None else plain.get_content()
    html = None if rich is None else rich.get_content()
    message_id = str(message["Message-ID"] or "")
    subject = str(message["Subject"])
    reply_to = message["Reply-To"] and message["Reply-To"].addresses[0].addr_spec
    answers_go_to = (reply_to,) if reply_to else ()
    content = "\0".join((message_id, str(sender), address, subject, text, html or "", *answers_go_to))
    return ApiMail(
        sender=Address(sender.display_name, addr_spec=sender.addr_spec),
        recipient=address,
        subject=subject,
        text=text,
        html=html,
        message_id=message_id,
        reply_to=reply_to,
        attempt_key=str(uuid.uuid5(_KEY_NAMESPACE, hashlib.sha256(content.encode("utf-8")).hexdigest())),
    )
