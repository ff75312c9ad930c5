"""Writes a mail at the moment of its delivery, from the rows its outbox entry names."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr

from regsvc.auth.password_links import LIFETIMES, LinkPurpose, PasswordLinks
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.email_address import EmailAddress
from regsvc.database.models import PENDING, Link, Review, User
from regsvc.notifications.mail.templates import MailTemplates, Values
from regsvc.notifications.outbox import Outbox, OutboxMessage
from regsvc.notifications.transport import Drop

SET_PASSWORD_PATH = "/set-password"  # noqa: S105 - a path


_LISTED = 30
"""So many names stand in a digest; the others are counted."""


class NothingToSend(Drop):
    """The mail has become pointless; `str()` says why, without any secret."""


@dataclass(frozen=True)
class RenderedMail:
    """A mail ready to go. `secrets` are the texts in it that must appear nowhere else."""

    message: EmailMessage = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def censor(self, text: str) -> str:
        """The text without the secrets of this mail: servers quote what they refuse."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


@dataclass(frozen=True)
class _Content:
    values: Values
    secrets: tuple[str, ...] = field(default=(), repr=False)


class MailRenderer:
    """Rules that read (and, for a link, write) inside the caller's transaction.

    `sender` is the From of every mail; without a display name of its own it gets `server_name`. `base_url` has no
    slash at its end.
    """

    def __init__(
        self,
        templates: MailTemplates,
        codes: VerificationCodes,
        links: PasswordLinks,
        outbox: Outbox,
        now: Clock,
        *,
        sender: str,
        server_name: str,
        base_url: str,
    ) -> None:
        self._templates = templates
        self._codes = codes
        self._links = links
        self._outbox = outbox
        self._now = now
        self._server_name = server_name
        self._base_url = base_url
        self._from = _sender_address(sender, server_name)
        self._contents: dict[str, Callable[[OutboxMessage], _Content]] = {
            "verification_code": self._verification_code,
            "unlink_code": self._unlink_code,
            "already_registered": self._about_user,
            "approved": self._approved,
            "approved_set_password": self._approved_set_password,
            "rejected": self._decision,
            "banned": self._decision,
            "unbanned": self._decision,
            "reset_password": self._password_link,
            "password_link": self._password_link,
            "digest": self._digest,
            "email_changed": self._email_changed,
            "account_deleted": self._account_deleted,
        }

    def render(self, mail: OutboxMessage) -> RenderedMail:
        """The whole mail. Raises `NothingToSend`, and KeyError for a mail nobody knows: that is a bug."""
        content = self._contents[mail.template](mail)
        message = self.compose(mail.template, recipient_of(mail), mail.language, content.values)
        # the same for every attempt, so that a mail box can tell a repetition
        del message["Message-ID"]
        message["Message-ID"] = self._message_id(f"{mail.id} {epoch_ms(mail.created_at)}")
        return RenderedMail(message, content.secrets)

    def compose(self, name: str, to: EmailAddress, language: str, values: Values) -> EmailMessage:
        """A mail from its template: text, and HTML where there is some."""
        filled = self._templates.get(name, language).fill({"server": self._server_name, **values})
        moment = self._now()
        message = EmailMessage(policy=SMTP)
        message["Subject"] = filled.subject
        message["From"] = self._from
        message["To"] = Address(username=_unquoted(to.local_part), domain=to.domain)
        message["Date"] = moment
        message["Message-ID"] = self._message_id(f"{name} {to.key} {epoch_ms(moment)}")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(filled.text)
        if filled.html is not None:
            message.add_alternative(filled.html, subtype="html")
        return message

    def _verification_code(self, mail: OutboxMessage) -> _Content:
        row = None if mail.row_id is None else self._codes.find_sendable(mail.row_id)
        if row is None:
            raise NothingToSend("its code is used, expired or followed by another")
        code = self._codes.code_of(row)
        return _Content({"code": code, "minutes": _minutes(self._codes.valid)}, (code,))

    def _unlink_code(self, mail: OutboxMessage) -> _Content:
        username = _get_user(mail).username
        code = self._verification_code(mail)
        return _Content({"username": username, **code.values}, code.secrets)

    def _about_user(self, mail: OutboxMessage) -> _Content:
        return _Content({"username": _get_user(mail).username})

    def _approved(self, mail: OutboxMessage) -> _Content:
        return _Content({"username": _get_user(mail).username, "reason": _get_review(mail).reason or None})

    def _approved_set_password(self, mail: OutboxMessage) -> _Content:
        approved = self._approved(mail)
        link, token = self._link(mail, "first_password")
        days = str(LIFETIMES["first_password"].days)
        return _Content({**approved.values, "link": link, "days": days}, (token,))

    def _decision(self, mail: OutboxMessage) -> _Content:
        """The user may be gone by now; the decision is history and stays."""
        review = _get_review(mail)
        until = None if review.ban_expires_at is None else _in_words(review.ban_expires_at)
        return _Content({"username": review.username, "reason": review.reason or None, "until": until})

    def _email_changed(self, mail: OutboxMessage) -> _Content:
        """Worth telling even if the account is gone by now: a thief would delete it next."""
        user = None if mail.user_id is None else User.get_or_none(User.id == mail.user_id)
        return _Content({"username": None if user is None else user.username})

    def _account_deleted(self, mail: OutboxMessage) -> _Content:
        return _Content({"username": _get_review(mail).username})

    def _password_link(self, mail: OutboxMessage) -> _Content:
        username = _get_user(mail).username
        link, token = self._link(mail, "reset")
        minutes = _minutes(LIFETIMES["reset"])
        return _Content({"username": username, "link": link, "minutes": minutes}, (token,))

    def _digest(self, mail: OutboxMessage) -> _Content:
        """Who waits now: whoever was reviewed meanwhile needs nobody any more."""
        waiting = User.select().where(User.status == PENDING)
        count = waiting.count()
        listed = list(waiting.order_by(User.id).limit(_LISTED))
        if not listed:
            raise NothingToSend("nobody waits any more")
        return _Content(
            {
                "count": str(count),
                "names": "\n".join(f"{user.username} ({_in_words(user.created_at)})" for user in listed),
                "more": str(count - len(listed)) if count > len(listed) else None,
            }
        )

    def _link(self, mail: OutboxMessage, purpose: LinkPurpose) -> tuple[str, str]:
        """The address of this mail's link, and the token in it.

        It is issued here, so that its time does not run while the mail waits; a later attempt brings the same one.
        """
        link = self._find_link(mail)
        if link is None:
            user = _get_user(mail)
            if user.email_key != mail.recipient_key:
                raise NothingToSend("its user has another address now")
            link = self._links.issue(user.id, purpose, mail.recipient_key)
            self._outbox.remember_link(mail.id, link.id)
        token = self._links.token_of(link)
        return f"{self._base_url}{SET_PASSWORD_PATH}#token={token}", token

    def _find_link(self, mail: OutboxMessage) -> Link | None:
        """The one an earlier attempt brought; None if there was none or it expired meanwhile."""
        link = None if mail.link_id is None else Link.get_or_none(Link.id == mail.link_id)
        if link is None:
            return None
        if link.redeemed_at is not None:
            raise NothingToSend("its link has been used, or followed by another")
        return self._links.find_by_id(link.id)

    def _message_id(self, seed: str) -> str:
        digest = hashlib.sha256(seed.encode("utf-8")).hexdigest()[:32]
        return f"<{digest}@{self._from.domain or 'localhost'}>"


def recipient_of(mail: OutboxMessage) -> EmailAddress:
    """Whom the mail goes to."""
    return EmailAddress(mail.recipient, mail.recipient_key)


def _sender_address(sender: str, server_name: str) -> Address:
    name, address = parseaddr(sender)
    words = " ".join((name or server_name).split())
    return Address(words, addr_spec=address or sender)


def _unquoted(local_part: str) -> str:
    """The local part without the quotes and backslashes it is written with; the header puts them back."""
    if not local_part.startswith('"'):
        return local_part
    return re.sub(r"\\(.)", r"\1", local_part[1:-1])


def _get_user(mail: OutboxMessage) -> User:
    user = None if mail.user_id is None else User.get_or_none(User.id == mail.user_id)
    if user is None:
        raise NothingToSend("nobody has this account, or no longer")
    return user


def _get_review(mail: OutboxMessage) -> Review:
    review = None if mail.row_id is None else Review.get_or_none(Review.id == mail.row_id)
    if review is None:
        raise NothingToSend("the decision it tells of is gone")
    return review


def _minutes(duration: timedelta) -> str:
    return str(max(1, round(duration / timedelta(minutes=1))))


def _in_words(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
