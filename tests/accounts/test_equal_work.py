"""The cost of a reply does not reveal whether an account exists: the same statements, the same hashes.

Work is counted, not timed: seconds would depend on what else the machine does.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import peewee
import pytest
from passlib.context import CryptContext

from plugin_bridge.hashers import Hasher
from regsvc.accounts.captcha import CaptchaProof
from regsvc.auth.verification_codes import NO_CODE_OR_PROOF, CodeOrProof
from regsvc.core.errors import BadCredentials, RateLimited, Refusal
from regsvc.registration.registration import RegistrationRequest
from tests.support.authme.authme_database import DatabaseKind
from tests.support.captchas import answer_to
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness
from tests.support.statements import recorded_statements

NO_LIMIT = ["100000 per minute"]
FEW = 2
"""Statements by which the work for two addresses may differ: well below what a network hides."""
LIMITS = {f"verification__limits_{of}": NO_LIMIT for of in ("per_address", "per_client", "total", "total_forgot")}


@dataclass
class Work:
    """Statements, without their values, and passwords compared with a hash."""

    statements: list[str] = field(default_factory=list)
    hashes: int = 0


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    services = make_services(**LIMITS)
    for name in ("Pete", "Ada", "Rick", "Bert"):
        services.register(name)
    services.decide("approve", "Ada")
    services.decide("reject", "Rick")
    services.decide("ban", "Bert")
    services.authme.register("Ulla", "ullas-secret", email="ulla@example.org")  # an address that she never proved
    services.sync()
    return services


@contextmanager
def counted() -> Iterator[Work]:
    """Count what happens inside, on every thread; but for what a thread's new connection to SQLite asks first."""
    work = Work()
    execute_sql: Any = peewee.Database.execute_sql
    verify, verify_own = Hasher.verify, CryptContext.verify

    def execute(database: peewee.Database, sql: str, *args: Any, **kwargs: Any) -> Any:
        if not sql.startswith("PRAGMA"):
            work.statements.append(re.sub(r"\d+", "n", sql))
        return execute_sql(database, sql, *args, **kwargs)

    def match(*args: Any) -> bool:
        work.hashes += 1
        return verify(*args)

    def match_own(*args: Any) -> bool:
        work.hashes += 1
        return bool(verify_own(*args))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CryptContext, "verify", match_own)
        patched.setattr(peewee.Database, "execute_sql", execute)
        patched.setattr(Hasher, "verify", match)
        yield work


def work_of(call: Callable[[], Awaitable[object]]) -> Work:
    with counted() as work:
        asyncio.run(call())  # type: ignore[arg-type]
    return work


RESIDENTS = ("fred", "pete", "ada", "rick", "bert", "ulla")
"""Free, pending, approved, rejected, banned, and of a player who never proved it."""


# R3
def test_a_code_costs_the_same_statements_for_every_address(services: ServiceHarness) -> None:
    verification = services.app.verification
    work_of(lambda: verification.send_code("first@example.org", "register", CALLER))  # makes the counters of all
    work = {
        name: work_of(lambda name=name: verification.send_code(f"{name}@example.org", "register", CALLER))  # type: ignore[misc]
        for name in RESIDENTS
    }
    counts = {name: len(done.statements) for name, done in work.items()}
    assert counts["fred"] > 0
    assert max(counts.values()) - min(counts.values()) <= FEW, counts


# R3
def test_a_forgotten_password_costs_the_same_statements_for_every_address(services: ServiceHarness) -> None:
    mails = services.app.password_mails
    work_of(lambda: mails.forgot("first@example.org", CALLER))  # makes the counters of all
    work = {
        name: work_of(lambda name=name: mails.forgot(f"{name}@example.org", CALLER))  # type: ignore[misc]
        for name in RESIDENTS
    }
    counts = {name: len(done.statements) for name, done in work.items()}
    assert counts["fred"] > 0
    assert max(counts.values()) - min(counts.values()) <= FEW, counts


def failed_login(services: ServiceHarness, name: str) -> Work:
    async def log_in() -> None:
        with pytest.raises(BadCredentials):
            await services.app.logins.log_in(name, "a-wrong-password", "user", CALLER)

    return work_of(log_in)


@pytest.mark.parametrize("name", ["Pete", "Ada", "Nobody", "pete@example.org", "nobody@example.org", "Without"])
def test_a_failed_login_costs_one_hash_for_every_name(services: ServiceHarness, name: str) -> None:
    services.register("Without", password=None)
    assert failed_login(services, name).hashes == 1


@pytest.mark.one_database("sqlite")  # for ours is in AuthMe's otherwise
def test_a_failed_login_costs_one_hash_after_authme_was_turned_off(services: ServiceHarness) -> None:
    """Ulla's password is AuthMe's alone, and cannot be compared."""
    services.restart(authme__enabled=False)
    services.register("Without", password=None)
    for name in ("Ada", "Ulla", "Without", "Nobody"):
        assert failed_login(services, name).hashes == 1, name


# R2
def test_during_a_delay_a_right_password_costs_as_much_as_a_wrong_one(services: ServiceHarness) -> None:
    """Mallory has an account, so that the password is compared for their client; the refusal must not tell the rest."""
    mallory = replace(CALLER, address="203.0.113.9", limit_key="203.0.113.9")
    logins = services.app.logins
    services.register("Mallory")
    asyncio.run(logins.log_in("Mallory", PASSWORD, "user", mallory))
    for _failure in range(9):
        with pytest.raises(Refusal):
            asyncio.run(logins.log_in("Ada", "a-wrong-password", "user", CALLER))

    async def log_in(password: str) -> None:
        with pytest.raises(RateLimited):
            await logins.log_in("Ada", password, "user", mallory)

    wrong, right = (work_of(lambda given=given: log_in(given)) for given in ("a-wrong-password", PASSWORD))  # type: ignore[misc]
    assert wrong.hashes == right.hashes == 1
    assert len(wrong.statements) == len(right.statements)


# R2
@pytest.mark.parametrize(
    ("known", "unknown"),
    [("Pete", "Nobody"), ("pete@example.org", "nobody@example.org"), ("pete@example.org", "ulla@example.org")],
    ids=["names", "addresses", "an address that nobody proved"],
)
def test_a_failed_login_costs_as_much_sql_for_an_unknown_name(
    services: ServiceHarness, database_kind: DatabaseKind, known: str, unknown: str
) -> None:
    failed_login(services, known)  # whatever is only done once
    failed_login(services, unknown)
    both = []
    for name in (known, unknown):
        with recorded_statements() as sent:
            work = failed_login(services, name)
        both.append(sent if database_kind == "mariadb" else work.statements)
    assert len(both[0]) == len(both[1]) > 0, both


def refused_registration(services: ServiceHarness, name: str, email: str, code: str | None) -> Work:
    request = RegistrationRequest(name, email, CodeOrProof(code), "a-wrong-password", "java", "en")

    async def register() -> None:
        with pytest.raises(Refusal):
            await services.app.registration.register(request, CALLER)

    return work_of(register)


# R1
def test_a_spent_code_costs_a_wrong_guess_as_much_as_an_expired_one(services: ServiceHarness) -> None:
    """Only a registration spends a code: that there was one must not show."""
    services.app.codes.issue("asked@example.org", "register", CALLER)
    services.clock.advance(minutes=16)
    refused_registration(services, "Someone", "first@example.org", "no code")  # whatever is only done once
    work = [refused_registration(services, "Someone", f"{who}@example.org", "no code") for who in ("asked", "pete")]
    assert len(work[0].statements) == len(work[1].statements) > 0, work


# R1
def test_without_codes_a_repeated_registration_does_not_tell_whose_address_it_is(make_services: MakeServices) -> None:
    services = make_services(registration__methods=["captcha"])
    captcha = asyncio.run(services.app.captchas.generate(CALLER)).token
    proof = CaptchaProof(captcha, answer_to(services.app, captcha))
    pete = RegistrationRequest("Pete", "pete@example.org", NO_CODE_OR_PROOF, PASSWORD, "java", "en", proof)
    asyncio.run(services.app.registration.register(pete, CALLER))
    work = [refused_registration(services, "Pete", f"{who}@example.org", None) for who in ("pete", "nobody")]
    assert work[0].hashes == work[1].hashes == 1
    assert len(work[0].statements) == len(work[1].statements) > 0, work
