"""The people of the demo: who applied, what they answered, and what Olivia decided. All take the ways that people take.

They come and are decided about in the past, so that the queue looks like that of a server on a usual day.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from regsvc.app.app import App
from regsvc.app.context import open_context
from regsvc.auth.entitlement import Principal
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.config.sections import Config
from regsvc.core.addresses import Caller
from regsvc.core.clock import now
from regsvc.core.email_address import parse_email
from regsvc.core.errors import ReapplyLater, UsernameTaken, WrongStatus
from regsvc.core.rights import EVERYTHING
from regsvc.core.text import name_key
from regsvc.database.audit import Actor
from regsvc.database.models import User
from regsvc.registration.questionnaire.questions import Answer
from regsvc.registration.questionnaire.service import Submitter
from regsvc.registration.registration import RegistrationRequest
from regsvc.users.transitions import DecisionDetails

SHOWN: Final = "Mia_builds"
"""The applicant whose page the demo links to."""

_NEIGHBOURS: Final = "203.0.113.40"
_PASSWORD: Final = "willow-by-the-river"
_HOUR: Final = 1
_DAY: Final = 24 * _HOUR
_OLIVIA: Final = Principal(Actor("Olivia"), EVERYTHING, "Olivia")
_FRIENDLY: Final = (1,)  # options count from 0
_ALLOWED: Final = (1, 2)


@dataclass(frozen=True)
class Applicant:
    """An application, and what came of it.

    `age` and `decided`: hours before now, the second after the first. `wish` and `source` are the answers to the last
    two of the sample questions, `first` and `second` the options that were chosen at the others.
    """

    name: str
    age: float
    wish: str
    source: str = ""
    language: str = "en"
    address: str = ""
    platform: str = "java"
    first: tuple[int, ...] = _FRIENDLY
    second: tuple[int, ...] = _ALLOWED
    decisions: tuple[tuple[float, str, str], ...] = ()
    """Hours before now, transition and reason of each."""


APPLICANTS: Final[Sequence[Applicant]] = (
    Applicant(
        "Sam_the_Mason",
        12 * _DAY,
        "I build bridges. I would like to help with the one across the river.",
        "A friend",
        decisions=((12 * _DAY - 3, "approve", "Welcome! The bridge is yours."),),
    ),
    Applicant(
        "Oda_1987",
        9 * _DAY,
        "A small farm at the edge of the valley, and a market with my neighbours on Sundays.",
        "Reddit",
        decisions=((9 * _DAY - 6, "approve", ""),),
    ),
    Applicant(
        "xX_Blaze_Xx",
        8 * _DAY,
        "Just want to play with everybody, I know a lot about redstone.",
        decisions=(
            (8 * _DAY - 5, "approve", ""),
            (3 * _DAY, "ban", "ban.griefing"),
        ),
        address=_NEIGHBOURS,
    ),
    Applicant(
        "Lena_Holz",
        6 * _DAY,
        "Ich baue am liebsten Fachwerkhäuser und würde gern mit anderen ein Dorf planen.",
        "Meine Schwester spielt schon hier.",
        language="de",
        decisions=((6 * _DAY - 2, "approve", ""),),
    ),
    Applicant(
        "Theo_short",
        4 * _DAY,
        "play and build",
        decisions=((4 * _DAY - 4, "reject", "reject.short_answers"),),
    ),
    Applicant(
        "Theo_short",
        26 * _HOUR,
        "I'd rebuild the mill by the river with a working water wheel, and run a bakery in it with two friends.",
        "YouTube",
    ),
    Applicant(
        "Blaze_is_back",
        20 * _HOUR,
        "Redstone machines for everybody, and no trouble at all this time.",
        address=_NEIGHBOURS,
    ),
    Applicant(
        "Pixel_Papa",
        15 * _HOUR,
        "Playing with my two kids on weekends. We like to build treehouses together.",
        "The school's newsletter",
    ),
    Applicant(
        "xiaolin_mc",
        9 * _HOUR,
        "我想和大家一起建一座中式园林，有小桥、流水和亭子。我很有耐心，也喜欢教新手。",
        "B站视频",
        language="zh",
    ),
    Applicant(
        "BeaOnThePhone",
        7 * _HOUR,
        "I play on my phone and love decorating houses. I could furnish the inn!",
        "Discord",
        platform="bedrock",
    ),
    Applicant(
        "Noe_du_phare",
        5 * _HOUR,
        "Créer un phare au bout du lac et une ligne de bateaux avec les autres joueurs.",
        "Un ami de Discord",
        language="fr",
    ),
    Applicant(
        SHOWN, 2 * _HOUR, "A greenhouse village: glass, vines, bees. I can show sketches if you like.", "A friend"
    ),
)


def populate(config: Config) -> str:
    """Let everybody apply who has not, and return the token of the application that the demo links to.

    Nobody is mailed: what was to be sent counts as sent.
    """
    clock = _Clock()
    app = App(open_context(config, now=clock), config.base_url())
    try:
        app.context.prepare()
        app.open()
        for place, applicant in enumerate(APPLICANTS, start=20):
            caller = _caller(applicant, place)
            with suppress(UsernameTaken, ReapplyLater, WrongStatus):  # after a run that was interrupted
                clock.hours_ago = applicant.age
                asyncio.run(_apply(app, applicant, caller))
                for hours, transition, reason in applicant.decisions:
                    clock.hours_ago = hours
                    _decide(app, applicant.name, transition, reason)
        clock.hours_ago = 0
        while messages := app.outbox.claim_due(1):
            app.outbox.record_sent(messages[0])
        return app.worker.run_here(_token_of, app, SHOWN)
    finally:
        app.worker.close_here()
        app.close()


class _Clock:
    """A clock that shows a time in the past."""

    def __init__(self) -> None:
        self.hours_ago = 0.0
        self._start = now()

    def __call__(self) -> datetime:
        return self._start - timedelta(hours=self.hours_ago)


def _caller(applicant: Applicant, place: int) -> Caller:
    address = applicant.address or f"198.18.{place}.{place}"
    return Caller(address, address, applicant.language, f"demo-{place}")


async def _apply(app: App, applicant: Applicant, caller: Caller) -> None:
    email = f"{applicant.name.strip('_').lower()}@example.org"
    answers = {
        "1": Answer("single_choice", applicant.first),
        "2": Answer("multiple_choice", applicant.second),
        "3": Answer("text", text=applicant.wish),
        "4": Answer("text", text=applicant.source),
    }
    submitted = await app.questionnaires.submit(answers, Submitter(caller))
    issued = app.worker.run_here(app.codes.issue, parse_email(email).key, "register", caller)
    row = app.worker.run_here(app.codes.find_sendable, issued)
    assert row is not None
    request = RegistrationRequest(
        applicant.name,
        email,
        CodeOrProof(app.codes.code_of(row)),
        _PASSWORD,
        applicant.platform,
        applicant.language,
        questionnaire_token=submitted.token,
    )
    await app.registration.register(request, caller)


def _decide(app: App, name: str, transition: str, reason: str) -> None:
    details = DecisionDetails(reason=reason or None)
    app.worker.run_here(app.decisions.decide, name, transition, _OLIVIA, details)


def _token_of(app: App, name: str) -> str:
    user = User.get(User.username_key == name_key(name))
    return app.registration.tokens.token_of(user)
