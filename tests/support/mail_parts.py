"""All mail parts, wired as in the daemon, on whatever database is open."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from peewee import Database

from regsvc.auth.derived_secrets import ApplicationTokens, DerivedSecrets
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.verification_codes import CodeOrProof, Purpose, VerificationCodes
from regsvc.config.host_sections import GameSection, HttpSection, ServerSection
from regsvc.config.sections import Config
from regsvc.core.addresses import Caller
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import InvalidCode
from regsvc.core.i18n import load_translations
from regsvc.core.rights import Team
from regsvc.core.units import RateLimit
from regsvc.database.models import BaseModel, Review, User
from regsvc.notifications.delivery import DeliveryWorker
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.mail.renderer import MailRenderer, load_mail_templates
from regsvc.notifications.mail.transport import MailBackend, MailTransport, mail_retry_policy, start_code
from regsvc.notifications.outbox import Outbox
from regsvc.users.retention import find_reapply_at_after
from tests.support.manual_clock import ManualClock
from tests.support.watched_worker import WAIT, WatchedWorker

ALICE = parse_email("Alice@example.org")
BOB = parse_email("Bob@example.org")

CALLER = Caller("198.51.100.7", "198.51.100.7", "en", "request-1")

INSTALLATION_KEY = bytes(range(32))


def is_right(codes: VerificationCodes, email_key: str, purpose: Purpose, code: str, caller: Caller) -> bool:
    """Whether this code can be redeemed now; a wrong one uses up an attempt."""
    try:
        codes.check(email_key, purpose, CodeOrProof(code), caller)
    except InvalidCode:
        return False
    return True


def redeem(codes: VerificationCodes, email_key: str, given: CodeOrProof, caller: Caller) -> None:
    """Redeems a code or proof for a registration."""
    codes.redeem(codes.check(email_key, "register", given, caller), given, caller)


def rows_of(table: type[BaseModel]) -> list[dict[str, Any]]:
    """All rows of a table."""
    rows: Any = table.select().dicts()
    return list(rows)


class MailHarness:
    """Codes, links, outbox and mails."""

    def __init__(
        self,
        database: Database,
        clock: ManualClock,
        templates: Path | None = None,
        *,
        sender: str = "companion@example.org",
        name: str = "Example Craft",
        guesses: Sequence[RateLimit] = (),
        game_address: str = "play.example.org",
        has_own_pages: bool = True,
        languages: Sequence[str] = (),
    ) -> None:
        self.server = ServerSection(name=name)
        secrets = DerivedSecrets(INSTALLATION_KEY)
        self.clock = clock
        self.codes = VerificationCodes(
            secrets, clock, valid=timedelta(minutes=5), max_tries=5, digits=6, guesses=guesses
        )
        self.links = PasswordLinks(secrets, clock, Team(lambda name: 4 if name.lower() == "olivia" else 0))
        self.outbox = Outbox(
            clock, "mail", mail_retry_policy(max_attempts=3), on_sent=lambda message: start_code(message, self.codes)
        )
        self.mail_queue = MailQueue(
            self.outbox, "en", is_available=True, wake_all=lambda: None, wake_mails=lambda: None
        )
        self.renderer = MailRenderer(
            load_mail_templates(templates),
            self.codes,
            self.links,
            clock,
            sender=sender,
            config=lambda: Config(
                server=self.server,
                game=GameSection(address=game_address),
                http=HttpSection(web_root=None if has_own_pages else Path("/srv/front-end")),
            ),
            translations=load_translations(offered=languages, zone=UTC),
            base_url="https://play.example.org",
            application_tokens=ApplicationTokens(secrets),
            find_reapply_at=lambda review: find_reapply_at_after(review, timedelta(hours=24), clock()),
            find_standing=lambda user: str(user.status),
        )

    def ask_for_code(self, to: EmailAddress = ALICE, language: str = "en") -> str:
        """Does what `verify/send` does; returns the code that will be mailed."""
        row_id = self.codes.issue(to.key, "register", CALLER)
        self.mail_queue.send_to(to, language, "verification_code", verification_id=row_id)
        row = self.codes.find_sendable(row_id)
        assert row is not None
        return self.codes.code_of(row)

    def review(self, user: User, transition: str, reason: str | None = None, **columns: object) -> int:
        """Records a decision by Olivia; returns the row's id."""
        row = {
            "user_id": user.id,
            "username": user.username,
            "username_key": user.username_key,
            "transition": transition,
            "status_before": "pending",
            "reason": reason,
            "operator": "Olivia",
            "reviewed_at": self.clock(),
            **columns,
        }
        review_id: int = Review.insert(row).execute()
        return review_id


@dataclass
class UnderWay:
    """A running delivery worker and the worker it runs on."""

    delivery: DeliveryWorker
    worker: WatchedWorker


@asynccontextmanager
async def delivering(
    mail_harness: MailHarness,
    database: Database,
    backend: MailBackend,
    first_pause: timedelta = timedelta(milliseconds=20),
) -> AsyncIterator[UnderWay]:
    """Runs until the block ends, and has finished the attempts under way when it returns."""
    worker = WatchedWorker(database)
    transport = MailTransport(database, mail_harness.renderer, backend)
    delivery = DeliveryWorker(
        worker,
        mail_harness.outbox,
        transport,
        first_pause=first_pause,
        shutdown_timeout=timedelta(seconds=1),
    )
    running = asyncio.create_task(delivery.run())
    try:
        yield UnderWay(delivery, worker)
    finally:
        delivery.stop()
        async with asyncio.timeout(WAIT):
            await running
        await asyncio.to_thread(worker.close)
