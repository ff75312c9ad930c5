"""One method for each e-mail we send: what has to be promised so that it can be written at delivery.

They run inside the transaction of what the mail tells of. A new mail is a method here, an entry in
`mail_templates.MAILS`, its texts in `emails/`, and its line in `mail_renderer`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import MailUnavailable
from regsvc.database.models import User
from regsvc.notifications.outbox import Outbox


class MailQueue:
    """Puts mails into the outbox. Where e-mail is off, the ones that merely tell of something are not written."""

    def __init__(self, outbox: Outbox, default_language: str, *, is_available: bool, wake: Callable[[], None]) -> None:
        """`wake` tells whoever delivers that there is something, once the transaction has committed."""
        self._outbox = outbox
        self._default_language = default_language
        self.is_available = is_available
        self.wake = wake

    def batched(self) -> AbstractContextManager[None]:
        """Mails to many people are promised together, when this ends."""
        return self._outbox.batched()

    def require_available(self) -> None:
        """Raises `MailUnavailable` where e-mail is off."""
        if not self.is_available:
            raise MailUnavailable

    def send_verification_code(self, to: EmailAddress, language: str, verification_id: int) -> None:
        """The code of a row that `VerificationCodes.issue` gave."""
        self._outbox.put("verification_code", to, language, row_id=verification_id)

    def send_unlink_code(self, to: EmailAddress, language: str, verification_id: int, user_id: int | None) -> None:
        """A code that unlinks the chat account. `user_id` None: nobody has one here, and nothing is mailed.

        Both cases write the same, so that nobody learns from the time it takes which one it was.
        """
        self._outbox.put("unlink_code", to, language, user_id=user_id, row_id=verification_id)

    def send_already_registered(self, to: EmailAddress, language: str, user_id: int) -> None:
        """Instead of a code, to whoever has an account with this address."""
        self._outbox.put("already_registered", to, language, user_id=user_id)

    def send_approved(self, user: User, review_id: int, *, needs_password: bool) -> None:
        """Welcome; with a link to set the first password where none is known."""
        self._tell(user, "approved_set_password" if needs_password else "approved", review_id)

    def send_rejected(self, user: User, review_id: int) -> None:
        """The review's reason, if it has one."""
        self._tell(user, "rejected", review_id)

    def send_banned(self, user: User, review_id: int) -> None:
        """The review's reason and the ban's end, where they are known."""
        self._tell(user, "banned", review_id)

    def send_unbanned(self, user: User, review_id: int) -> None:
        """The ban is lifted."""
        self._tell(user, "unbanned", review_id)

    def send_reset_password(self, to: EmailAddress, language: str, user_id: int | None) -> None:
        """A link to set a new password. `user_id` None: nobody has this address, and nothing is mailed.

        Both cases write the same, so that nobody learns from the time it takes which one it was.
        """
        self._outbox.put("reset_password", to, language, user_id=user_id)

    def send_password_link(self, user: User) -> None:
        """The same link, because an admin wishes so."""
        self._tell(user, "password_link", None)

    def send_email_changed(self, user: User) -> None:
        """To the address `user` had until now."""
        self._tell(user, "email_changed", None)

    def send_account_deleted(self, user: User, review_id: int) -> None:
        """To whoever had the account; the review is the one of the deletion."""
        self._tell(user, "account_deleted", review_id)

    def send_digest(self, to: EmailAddress) -> None:
        """To an admin of the host's: who waits for a review at the time of delivery."""
        self._outbox.put("digest", to, self._default_language)

    def _tell(self, user: User, template: str, review_id: int | None) -> None:
        if user.email is None or user.email_key is None or not self.is_available:
            return
        to = EmailAddress(user.email, user.email_key)
        self._outbox.put(template, to, user.language or self._default_language, user_id=user.id, row_id=review_id)
