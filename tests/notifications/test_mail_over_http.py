"""Mails through services that are called over HTTP: what is posted, and what each answer means."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Any

import pytest

from regsvc.config.loader import load_config
from regsvc.config.sections import ConfigError
from regsvc.config.value_checks import MAIL_PLACEHOLDERS
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure, TransportUnavailable
from regsvc.notifications.mail.backends import make_mail_backend
from regsvc.notifications.mail.http_backend import make_mail_service
from regsvc.notifications.mail.transport import MailBackend
from tests.support.certificate import Certificate
from tests.support.peers.mail_service import DOMAIN, KEY, SENDING_KEY, Answered, MailService
from tests.support.ports import free_port

ALICE = parse_email("Alice@example.org")
CODE = "907151"
PROVIDERS = ["resend", "mailgun", "brevo"]
JSON_BODY = '{"From": "{from}", "To": [{"email": "{to}"}], "S": "{subject}", "T": "{text}", "H": "{html}", "n": 1}'
FORM_BODY = "sender={from_email}&name={from_name}&to={to}&subject={subject}&text={text}&html={html}&ref={id}"

Serve = Callable[..., MailService]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda kind, tls=None: running.enter_context(MailService(kind, tls))


def backend_of(config: Mapping[str, object], **changes: object) -> MailBackend:
    keys = {f"mail.{name}": value for name, value in {**config, **changes}.items()}
    return make_mail_backend(load_config(None, {}, keys).mail, None)


def generic_of(service: MailService, body: str = JSON_BODY, **changes: object) -> MailBackend:
    return backend_of(service.config, **{"http_header": "X-Server-Token: {key}", "http_body": body, **changes})


def letter(
    to: EmailAddress = ALICE,
    *,
    html: bool = True,
    subject: str = "Grüße",
    text: str = f"Your code is {CODE}.\n",
    reply_to: str = "",
) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = Address("Example Craft", addr_spec=f"noreply@{DOMAIN}")
    message["To"] = ALICE.envelope
    if reply_to:
        message["Reply-To"] = Address(addr_spec=reply_to)
    message["Date"] = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)
    message["Message-ID"] = "<1f2e@play.example.org>"
    message.set_content(text)
    if html:
        message.add_alternative(f"<p>Your code is {CODE}.</p>\n", subtype="html")
    return message


def send(backend: MailBackend, to: EmailAddress = ALICE, **how: Any) -> None:
    asyncio.run(backend.send(letter(to, **how), to))


def problem_of(backend: MailBackend) -> str:
    return asyncio.run(backend.find_problem(timedelta(seconds=5))) or ""


# --- what is posted ---


def test_resend_gets_it(serve: Serve) -> None:
    resend = serve("resend")
    send(backend_of(resend.config))
    assert resend.mails == [
        {
            "from": f"Example Craft <noreply@{DOMAIN}>",
            "to": ["Alice@example.org"],
            "subject": "Grüße",
            "text": f"Your code is {CODE}.\n",
            "html": f"<p>Your code is {CODE}.</p>\n",
            "headers": {"Auto-Submitted": "auto-generated"},
        }
    ]
    assert resend.requests[0].headers["user-agent"].startswith("companion/")


def test_mailgun_gets_it(serve: Serve) -> None:
    mailgun = serve("mailgun")
    send(backend_of(mailgun.config), html=False)
    assert mailgun.mails == [
        {
            "from": f"Example Craft <noreply@{DOMAIN}>",
            "to": "Alice@example.org",
            "subject": "Grüße",
            "text": f"Your code is {CODE}.\n",
            "h:Message-Id": "<1f2e@play.example.org>",
            "o:tracking": "no",
            "h:Auto-Submitted": "auto-generated",
        }
    ]


def test_brevo_gets_it(serve: Serve) -> None:
    brevo = serve("brevo")
    send(backend_of(brevo.config))
    [mail] = brevo.mails
    assert mail.pop("headers")["Auto-Submitted"] == "auto-generated"
    assert mail == {
        "sender": {"name": "Example Craft", "email": f"noreply@{DOMAIN}"},
        "to": [{"email": "Alice@example.org"}],
        "subject": "Grüße",
        "textContent": f"Your code is {CODE}.\n",
        "htmlContent": f"<p>Your code is {CODE}.</p>\n",
    }


def test_another_service_gets_what_the_host_describes(serve: Serve) -> None:
    service = serve("generic")
    send(generic_of(service))
    send(generic_of(service), html=False)
    send(generic_of(service, FORM_BODY), html=False)
    first, plain, form = service.mails
    assert first == {
        "From": f"Example Craft <noreply@{DOMAIN}>",
        "To": [{"email": "Alice@example.org"}],
        "S": "Grüße",
        "T": f"Your code is {CODE}.\n",
        "H": f"<p>Your code is {CODE}.</p>\n",
        "n": 1,
    }
    assert plain == {name: value for name, value in first.items() if name != "H"}, "a field without a value is left out"
    assert form.pop("ref") == service.requests[2].headers["idempotency-key"]
    assert form == {
        "sender": f"noreply@{DOMAIN}",
        "name": "Example Craft",
        "to": "Alice@example.org",
        "subject": "Grüße",
        "text": f"Your code is {CODE}.\n",
    }


def test_answers_go_to_the_contact_whatever_the_service(serve: Serve) -> None:
    body = '{"to": "{to}", "subject": "{subject}", "text": "{text}", "ReplyTo": "{reply_to}"}'
    services = {kind: serve(kind) for kind in ("resend", "mailgun", "brevo", "generic")}
    for kind, service in services.items():
        backend = generic_of(service, body) if kind == "generic" else backend_of(service.config)
        send(backend, reply_to="mods@example.org")
        send(backend)
    told = {"resend": "reply_to", "mailgun": "h:Reply-To", "brevo": "replyTo", "generic": "ReplyTo"}
    for kind, name in told.items():
        with_contact, without = services[kind].mails
        assert with_contact[name] == ({"email": "mods@example.org"} if kind == "brevo" else "mods@example.org")
        assert name not in without


def test_addresses_are_those_of_the_services(serve: Serve) -> None:
    def url(provider: str) -> str:
        mail = {"backend": "http", "http_provider": provider, "http_key": "k", "sender": "a@b.org"}
        return make_mail_service(load_config(None, {}, {f"mail.{key}": value for key, value in mail.items()}).mail).url

    assert [url(provider) for provider in PROVIDERS] == [
        "https://api.resend.com/emails",
        "https://api.mailgun.net/v3/b.org/messages",
        "https://api.brevo.com/v3/smtp/email",
    ]


# --- nothing in a mail changes the request ---


@pytest.mark.parametrize("body", [JSON_BODY, FORM_BODY])
def test_no_text_leaves_its_field(serve: Serve, body: str) -> None:
    nasty = 'x", "To": "eve@evil.example"}&to=eve@evil.example {from} {html}\r\nBcc: eve@evil.example\n'
    service = serve("generic")
    send(generic_of(service, body), text=nasty, subject='"}&to=eve@evil.example')
    [mail] = service.mails
    assert mail["T" if body == JSON_BODY else "text"].splitlines() == nasty.splitlines()
    assert mail["To" if body == JSON_BODY else "to"] in ([{"email": "Alice@example.org"}], "Alice@example.org")
    assert "bcc" not in service.requests[0].headers


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_address_that_could_be_read_as_two_is_refused(serve: Serve, provider: str) -> None:
    service = serve(provider)
    with pytest.raises(PermanentFailure, match="quotes"):
        send(backend_of(service.config), parse_email('"x,eve@evil.example,y"@example.org'))
    assert service.requests == []


@pytest.mark.parametrize(("key", "value"), [("http_key", "a\r\nX: b"), ("http_header", "X: {key}\r\nY: b")])
def test_no_key_of_the_config_adds_a_header(serve: Serve, key: str, value: str) -> None:
    service = serve("generic")
    with pytest.raises(ConfigError, match=rf"\[mail\] {key}"):
        generic_of(service, **{key: value})


# --- what the answers mean ---


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_recipient_that_is_refused_is_final(serve: Serve, provider: str) -> None:
    service = serve(provider)
    with pytest.raises(PermanentFailure, match="answers HTTP 4") as refused:
        send(backend_of(service.config), parse_email("nobody@example.org"))
    assert CODE not in str(refused.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_key_holds_mails_back_and_is_told(serve: Serve, provider: str) -> None:
    service = serve(provider)
    wrong = backend_of(service.config, http_key="key-nobody-knows")
    with pytest.raises(TransportUnavailable, match=r"check mail\.http_key") as refused:
        send(wrong)
    assert problem_of(wrong) == str(refused.value)
    assert "key-nobody-knows" not in str(refused.value) + repr(wrong)
    assert service.mails == []


def test_resend_may_call_a_wrong_key_a_bad_request(serve: Serve) -> None:
    resend = serve("resend")
    answer = {"statusCode": 400, "name": "validation_error", "message": "API key is invalid"}
    resend.answer(Answered(400, answer), Answered(400, {**answer, "message": "The `to` field is invalid"}))
    with pytest.raises(TransportUnavailable, match=r"check mail\.http_key"):
        send(backend_of(resend.config))
    with pytest.raises(PermanentFailure):
        send(backend_of(resend.config))


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_passes_is_tried_again(serve: Serve, provider: str, status: int) -> None:
    service = serve(provider)
    service.answer(Answered(status, {"message": CODE}, {"Retry-After": "90"}))
    with pytest.raises(TemporaryFailure, match=str(status)) as later:
        send(backend_of(service.config))
    assert later.value.retry_after == timedelta(seconds=90)
    assert CODE not in str(later.value)
    send(backend_of(service.config))
    assert len(service.mails) == 1


@pytest.mark.parametrize(
    ("provider", "header"), [("resend", "Retry-After"), ("mailgun", "Retry-After"), ("brevo", "x-sib-ratelimit-reset")]
)
def test_a_limit_of_the_account_costs_no_attempt(serve: Serve, provider: str, header: str) -> None:
    service = serve(provider)
    service.answer(Answered(429, {"name": "daily_quota_exceeded"}, {header: "45"}))
    with pytest.raises(TransportUnavailable, match="a limit of the account is reached") as later:
        send(backend_of(service.config))
    assert later.value.retry_after == timedelta(seconds=45)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (301, "redirects us (HTTP 301: redirects are not followed): check mail.http_url"),
        (402, "has no credit left for us (HTTP 402 Payment Required): check the account's plan"),
        (403, "check mail.http_key, and that the domain of mail.sender is verified there"),
        (405, "takes no mails at this address (HTTP 405 Method Not Allowed): check mail.http_url"),
    ],
)
def test_what_every_mail_would_hear_costs_no_mail(serve: Serve, status: int, advice: str) -> None:
    service = serve("generic")
    service.answer(Answered(status, headers={"Location": service.url}))
    with pytest.raises(TransportUnavailable) as away:
        send(generic_of(service))
    assert str(away.value).endswith(advice)
    assert len(service.requests) == 1, "redirects are not followed"


# R80
@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("mailgun", f"Domain {DOMAIN} is not allowed to send: Free accounts are for test purposes only."),
        ("mailgun", "Sandbox subdomains are for test purposes only. Please add your own domain."),
        ("brevo", f"Sending has been rejected because the sender you used noreply@{DOMAIN} is not valid."),
        ("brevo", "You have exceeded your daily limit"),
    ],
)
def test_a_bad_request_may_be_about_our_account(serve: Serve, provider: str, message: str) -> None:
    service = serve(provider)
    service.answer(Answered(400, {"message": message}))
    with pytest.raises(TransportUnavailable, match=r"HTTP 400 Bad Request: it refuses the account or mail\.sender"):
        send(backend_of(service.config))


# --- a lost answer ---


def test_a_service_that_is_away_is_an_outage() -> None:
    config = {"backend": "http", "http_provider": "resend", "http_key": KEY, "sender": "a@b.org"}
    closed = backend_of(config, http_url=f"http://127.0.0.1:{free_port()}/emails", http_allow_private=True)
    with pytest.raises(TransportUnavailable, match="cannot be reached: ConnectionRefusedError"):
        send(closed)
    assert "check mail.http_url" in problem_of(closed)


# --- where it may lead ---


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_private_address_is_refused(serve: Serve, host: str) -> None:
    resend = serve("resend")
    url = f"http://{host}:{resend.port}/emails"
    backend = backend_of(resend.config, http_url=url, http_allow_private=False)
    with pytest.raises(TransportUnavailable, match=r"no public address; see mail\.http_allow_private"):
        send(backend)
    assert "see mail.http_allow_private" in problem_of(backend)
    assert resend.requests == []


def test_a_certificate_is_verified(serve: Serve, certificate: Certificate) -> None:
    resend = serve("resend", certificate.server_context())
    with pytest.raises(TransportUnavailable, match="certificate is not valid: self-signed"):
        send(backend_of(resend.config))
    assert resend.requests == []
    send(backend_of(resend.config, ca_file=str(certificate.certificate_file)))
    assert len(resend.mails) == 1


# --- what can be checked without a mail ---


@pytest.mark.parametrize(("provider", "key"), [(name, KEY) for name in PROVIDERS] + [("resend", SENDING_KEY)])
def test_a_service_that_can_be_used_is_no_problem_and_gets_no_mail(serve: Serve, provider: str, key: str) -> None:
    service = serve(provider)
    assert problem_of(backend_of(service.config, http_key=key)) == ""
    assert (len(service.requests), service.mails) == (1, [])


def test_a_key_of_mailguns_for_sending_alone_can_be_checked(serve: Serve) -> None:
    mailgun = serve("mailgun")
    assert problem_of(backend_of(mailgun.config, http_key=SENDING_KEY)) == ""
    elsewhere = problem_of(backend_of(mailgun.config, http_url=mailgun.url.replace(DOMAIN, "other.example")))
    assert elsewhere.startswith("Mailgun does not know the domain of mail.sender (HTTP 404 Not Found): add it there; ")
    assert "https://api.eu.mailgun.net/v3/DOMAIN/messages" in elsewhere
    assert mailgun.mails == []


def test_of_another_service_only_the_address_is_checked(serve: Serve) -> None:
    service = serve("generic")
    assert problem_of(generic_of(service)) == ""
    assert [(asked.method, asked.headers.get("x-server-token")) for asked in service.requests] == [("GET", None)]


def test_every_placeholder_has_a_value(serve: Serve) -> None:
    service = serve("generic")
    body = "&".join(f"{name}={{{name}}}" for name in MAIL_PLACEHOLDERS)
    send(generic_of(service, body), reply_to="mods@example.org")
    assert set(service.mails[0]) == set(MAIL_PLACEHOLDERS)
    assert all(service.mails[0].values())
