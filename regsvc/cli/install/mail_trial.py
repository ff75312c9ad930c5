"""A test mail with mail settings that are not in a config yet."""

import asyncio
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from regsvc.config.loader import load_config
from regsvc.core.email_address import parse_email
from regsvc.core.errors import InvalidEmail
from regsvc.notifications.mail.backend import (
    MailServerUnavailable,
    PermanentMailFailure,
    TemporaryMailFailure,
)
from regsvc.notifications.mail.backends import make_mail_backend


def send_test_mail(values: Mapping[str, object], password: str | None, address: str) -> str | None:
    """Send a mail through the mail server in `values`, by "section.key"; return why it failed, or None.

    Raises `ConfigError` if the values do not fit together.
    """
    mail = {key: value for key, value in values.items() if key.startswith("mail.")} | {"mail.backend": "smtp"}
    if password is not None:
        mail.pop("mail.password_file", None)
        mail["mail.password"] = password
    config = load_config(None, {}, mail)
    backend = make_mail_backend(config.mail, None)
    try:
        recipient = parse_email(address)
    except InvalidEmail:
        return f"{address} is no e-mail address"
    message = EmailMessage()
    message["Subject"] = "Test mail of the companion"
    message["From"] = backend.sender
    message["To"] = recipient.envelope
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain="companion.invalid")
    message.set_content("This mail server accepts mails from the companion.\n")
    try:
        asyncio.run(backend.send(message, recipient))
    except (PermanentMailFailure, TemporaryMailFailure, MailServerUnavailable) as error:
        return str(error)
    return None
