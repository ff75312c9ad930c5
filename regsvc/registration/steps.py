"""Steps of a registration beyond the proof of the applicant: one for each feature a host switches on."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.auth.address_proofs import CodeOrProof
from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller


@dataclass(frozen=True)
class Application:
    """A request to become a user, as received; None: not given.

    `browser_link_tokens`: link tokens from the browser's cookie, newest first.
    """

    username: str
    email: str | None
    code_or_proof: CodeOrProof
    password: str | None = field(repr=False)
    platform: str
    language: str
    captcha: CaptchaProof = NO_PROOF
    questionnaire_token: str | None = field(default=None, repr=False)
    link_token: str | None = field(default=None, repr=False)
    browser_link_tokens: tuple[str, ...] = field(default=(), repr=False)


class RegistrationStep:
    """One condition of a registration. Each method by default asks for nothing."""

    def guard(self, application: Application, caller: Caller) -> AbstractContextManager[object]:
        """Return a context manager around the rest of the registration; entering it may raise a refusal.

        Used on the event loop.
        """
        return nullcontext()

    def check(self, application: Application) -> None:
        """Raise the step's refusal before an attempt at the code is counted. Spends nothing. Blocking."""

    def redeem(self, application: Application, user_id: int) -> bool:
        """Spend the proof on the new user, inside the transaction that creates it. Raises as `check` does. Blocking.

        Returns False where an admin has to review this registration.
        """
        return True


class CaptchaStep(RegistrationStep):
    """Step that asks for a captcha, where the host wants one for registrations."""

    def __init__(self, captchas: Captchas) -> None:
        self._captchas = captchas

    def guard(self, application: Application, caller: Caller) -> AbstractContextManager[object]:
        return self._captchas.guard("register", application.captcha, caller)


class ApprovalStep(RegistrationStep):
    """Step that leaves new users to an admin's review, where the host wants that (`registration.approval`)."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    def redeem(self, application: Application, user_id: int) -> bool:
        return not self._live.current.registration.approval
