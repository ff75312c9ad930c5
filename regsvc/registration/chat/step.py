"""Chat link as a step of the registration, required or optional, claimed with the new user."""

from collections.abc import Sequence

from regsvc.core.errors import ChatLinkRequired, LinkTokenInvalid
from regsvc.database.audit import Actor
from regsvc.database.models import User
from regsvc.registration.steps import Application, RegistrationStep
from regsvc.users.chat_links import ChatLinks


class ChatStep(RegistrationStep):
    """Step that claims a chat link for the new user.

    Where none is required, one in the browser's cookie is claimed too.
    """

    def __init__(self, links: ChatLinks, *, is_required: bool) -> None:
        self._links = links
        self._is_required = is_required

    def check(self, application: Application) -> None:
        """Raise `ChatLinkRequired`, `LinkTokenInvalid` for an expired token in the request, and `ChatAccountTaken`."""
        account = self._links.find_unclaimed(_tokens(application))
        if account is None:
            self._refuse_missing(application)
        else:
            self._links.require_free(account)

    def redeem(self, application: Application, user_id: int) -> bool:
        """Claim the link for the new user. Raises as `check` does."""
        user = User.get_by_id(user_id)
        try:
            self._links.claim(_tokens(application), user, Actor(user.username, user.registration_ip))
        except LinkTokenInvalid:
            self._refuse_missing(application)
        return True

    def _refuse_missing(self, application: Application) -> None:
        if self._is_required:
            raise ChatLinkRequired
        if application.link_token is not None:
            raise LinkTokenInvalid


def _tokens(application: Application) -> Sequence[str]:
    """Return the token in the request or, without one, the tokens of the browser's cookie."""
    return application.browser_link_tokens if application.link_token is None else [application.link_token]
