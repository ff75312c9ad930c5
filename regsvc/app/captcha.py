"""Wiring of captchas."""

from dataclasses import dataclass
from typing import Final

from regsvc.accounts.captcha.captcha import CaptchaPolicy, Captchas, ChallengeStore, Use
from regsvc.accounts.captcha.pictures import puzzle_maker
from regsvc.app.context import AppContext
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core.bounded_pool import BoundedPool

_MAX_WAITING: Final = 50
"""Pictures that may wait for the thread; the last of them is drawn after about a tenth of a second."""

_SHARE, _LEAST = 100, 10
"""A client may hold a hundredth of all challenges, and ten in any case."""


@dataclass(frozen=True)
class CaptchaParts:
    """Captchas, the challenges that wait for an answer, and the thread that draws."""

    captchas: Captchas
    challenges: ChallengeStore
    pool: BoundedPool


def wire_captcha(context: AppContext) -> CaptchaParts:
    config, now = context.config.captcha, context.now
    at_registration: tuple[Use, ...] = ("register",) if "captcha" in context.config.registration.methods else ()
    policy = CaptchaPolicy(
        required_for=frozenset({*at_registration, *config.also_for}),
        valid=config.valid,
        picture_limits=config.pictures_per_client,
        answer_limits=config.answers_per_client,
        work_limits=config.work_per_client,
        offers_work=config.without_picture,
    )
    max_per_client = max(_LEAST, config.max_outstanding // _SHARE)
    challenges = ChallengeStore(now, config.max_outstanding, max_per_client)
    pool = BoundedPool("captcha", 1, _MAX_WAITING)
    captchas = Captchas(
        policy=policy,
        make_puzzle=puzzle_maker(config),
        render=_render,
        pool=pool,
        challenges=challenges,
        limits=MemoryLimits(now),
        now=now,
    )
    return CaptchaParts(captchas, challenges, pool)


def _render(text: str) -> bytes:
    from regsvc.accounts.captcha.pictures import render

    return render(text)
