"""What a registration may have to bring beside the code: one step for each feature a host switches on."""

from dataclasses import dataclass, field
from typing import Protocol

from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof


@dataclass(frozen=True)
class Application:
    """The request to become a user, as it came. `link_token` and `questionnaire_token` None: nothing was shown.

    `browser_link_tokens`: those that the browser's cookie carries, newest first.
    """

    username: str
    email: str
    code: str = field(repr=False)
    password: str | None = field(repr=False)
    platform: str
    language: str
    captcha: CaptchaProof = NO_PROOF
    questionnaire_token: str | None = field(default=None, repr=False)
    link_token: str | None = field(default=None, repr=False)
    browser_link_tokens: tuple[str, ...] = field(default=(), repr=False)


class RegistrationStep(Protocol):
    """One more proof. Both methods are rules for a worker thread."""

    def check(self, application: Application) -> None:
        """Before a try of the code is counted: raises the step's refusal. Spends nothing."""

    def redeem(self, application: Application, user_id: int) -> bool:
        """In the transaction that makes the user: spends the proof and gives it to him. Raises the same refusals.

        False: somebody has to look at this registration, even where registrations are approved by themselves.
        """
