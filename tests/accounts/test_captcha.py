"""A challenge from the picture to its end, beside whatever request it lets pass."""

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from hashlib import sha256

import pytest

from regsvc.accounts.captcha import (
    MAX_USES,
    CaptchaProof,
    Captchas,
    ChallengeStore,
    Puzzle,
    Use,
    hash_work,
    make_text,
)
from regsvc.accounts.captcha_pictures import render
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.config.sections import CaptchaSection
from regsvc.core import errors
from regsvc.core.addresses import Caller
from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.units import RateLimit
from tests.support.manual_clock import ManualClock

ALICE = Caller("198.51.100.7", "198.51.100.7", "en", "request-1")
MALLORY = Caller("203.0.113.9", "203.0.113.9", "en", "request-2")
EVERYTHING: tuple[Use, ...] = ("register", "verify_send", "login", "forgot")
MAX_WAITING = 2


class CaptchaHarness:
    """Captchas whose questions the test overhears."""

    def __init__(
        self,
        clock: ManualClock,
        config: CaptchaSection,
        render: Callable[[str], bytes] = render,
        required_for: tuple[Use, ...] = EVERYTHING,
    ) -> None:
        self.puzzles: list[Puzzle] = []
        self.pool = BoundedPool("captcha", 1, MAX_WAITING)
        self.challenges = ChallengeStore(clock, 100, 10)
        self.captchas = Captchas(
            config=config,
            required_for=required_for,
            make_puzzle=self._make_puzzle,
            render=render,
            pool=self.pool,
            challenges=self.challenges,
            limits=MemoryLimits(clock),
            now=clock,
        )

    def _make_puzzle(self) -> Puzzle:
        self.puzzles.append(make_text(4))
        return self.puzzles[-1]

    def proof(self, caller: Caller = ALICE) -> CaptchaProof:
        """Of a new challenge, the right one."""
        challenge = asyncio.run(self.captchas.generate(caller))
        return CaptchaProof(challenge.token, self.puzzles[-1].answer)

    def succeed(self, use: Use, proof: CaptchaProof, caller: Caller = ALICE) -> None:
        """A request that is done; raises what the captcha is refused with."""
        with self.captchas.guard(use, proof, caller):
            pass

    def be_refused(self, use: Use, proof: CaptchaProof) -> None:
        """A request that is refused for another reason."""
        with pytest.raises(errors.UsernameTaken), self.captchas.guard(use, proof, ALICE):
            raise errors.UsernameTaken


@pytest.fixture
def config() -> CaptchaSection:
    return CaptchaSection(pictures_per_client=(), answers_per_client=(), work_per_client=())


@pytest.fixture
def harness(clock: ManualClock, config: CaptchaSection) -> Iterator[CaptchaHarness]:
    harness = CaptchaHarness(clock, config)
    yield harness
    harness.pool.close()


def wrong(proof: CaptchaProof) -> CaptchaProof:
    return CaptchaProof(proof.token, "wrong")


# --- the challenge ---


def test_a_challenge_has_a_picture_a_token_and_an_end(harness: CaptchaHarness, clock: ManualClock) -> None:
    challenge = asyncio.run(harness.captchas.generate(ALICE))
    assert challenge.image.startswith("data:image/png;base64,iVBORw0KG")
    assert challenge.expires_at == clock() + timedelta(minutes=5)
    assert len(challenge.token) >= 22
    assert challenge.token not in repr(challenge)
    assert "PNG" not in repr(challenge)


def test_no_two_challenges_share_a_token(harness: CaptchaHarness) -> None:
    assert len({harness.proof().token for _challenge in range(50)}) == 50


def test_an_answer_is_not_printed(harness: CaptchaHarness) -> None:
    proof = harness.proof()
    assert repr(proof) == "CaptchaProof()"


# --- the answer ---


@pytest.mark.parametrize("use", EVERYTHING)
def test_a_right_answer_serves_one_success(harness: CaptchaHarness, use: Use) -> None:
    proof = harness.proof()
    harness.succeed(use, proof)
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed(use, proof)


@pytest.mark.parametrize("use", EVERYTHING)
def test_a_wrong_answer_ends_the_challenge(harness: CaptchaHarness, use: Use) -> None:
    proof = harness.proof()
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed(use, wrong(proof))
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed(use, proof)


def test_a_refused_registration_leaves_the_answer_good_for_four_more(harness: CaptchaHarness) -> None:
    proof = harness.proof()
    for _use in range(MAX_USES - 1):
        harness.be_refused("register", proof)
    harness.succeed("register", proof)
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("register", proof)


def test_five_refusals_end_it(harness: CaptchaHarness) -> None:
    proof = harness.proof()
    for _use in range(MAX_USES):
        harness.be_refused("register", proof)
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("register", proof)


@pytest.mark.parametrize("use", ["login", "verify_send", "forgot"])
def test_elsewhere_a_refusal_spends_it(harness: CaptchaHarness, use: Use) -> None:
    proof = harness.proof()
    harness.be_refused(use, proof)
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("register", proof)


def test_a_request_that_ended_nobody_knows_how_has_spent_it(harness: CaptchaHarness) -> None:
    """A cancelled call may still complete: its captcha must not serve a second success."""
    proof = harness.proof()
    with pytest.raises(asyncio.CancelledError), harness.captchas.guard("register", proof, ALICE):
        raise asyncio.CancelledError
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("register", proof)


def test_an_expired_challenge_is_refused(harness: CaptchaHarness, clock: ManualClock) -> None:
    proof = harness.proof()
    clock.advance(minutes=5)
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("login", proof)


def test_a_refusal_does_not_make_a_challenge_live_longer(harness: CaptchaHarness, clock: ManualClock) -> None:
    proof = harness.proof()
    clock.advance(minutes=4)
    harness.be_refused("register", proof)
    clock.advance(minutes=1)
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("register", proof)


@pytest.mark.parametrize("spelling", [str.lower, lambda answer: f"  {answer}\t", lambda answer: wide(answer)])
def test_spelling_does_not_matter(harness: CaptchaHarness, spelling: Callable[[str], str]) -> None:
    proof = harness.proof()
    assert proof.answer is not None
    harness.succeed("login", CaptchaProof(proof.token, spelling(proof.answer)))


def wide(answer: str) -> str:
    """As a Chinese keyboard may type it."""
    return "".join(chr(ord(character) + 0xFEE0) for character in answer)


@pytest.mark.parametrize("answer", ["x" * 60_000, "\0", "\ud800", "ſ", "²"])
def test_odd_answers_are_wrong_ones(harness: CaptchaHarness, answer: str) -> None:
    with pytest.raises(errors.InvalidCaptcha):
        harness.succeed("login", CaptchaProof(harness.proof().token, answer))


@pytest.mark.parametrize("token", ["nonsense", "", "\ud800", "x" * 60_000])
def test_odd_tokens_are_unknown(harness: CaptchaHarness, token: str) -> None:
    with pytest.raises((errors.InvalidCaptcha, errors.CaptchaRequired)):
        harness.succeed("login", CaptchaProof(token, "KXPA"))


# --- where it is asked for ---


@pytest.mark.parametrize("use", EVERYTHING)
def test_it_asks_for_what_is_missing_and_ends_nothing(harness: CaptchaHarness, use: Use) -> None:
    proof = harness.proof()
    for incomplete, field in [
        (CaptchaProof(), "captchaToken"),
        (CaptchaProof(None, "KXPA"), "captchaToken"),
        (CaptchaProof("", "KXPA"), "captchaToken"),
        (CaptchaProof(proof.token, None), "captchaAnswer"),
        (CaptchaProof(proof.token, " "), "captchaAnswer"),
    ]:
        with pytest.raises(errors.CaptchaRequired) as refused:
            harness.succeed(use, incomplete)
        assert refused.value.field == field
    harness.succeed(use, proof)


def test_where_none_is_asked_for_nothing_is_looked_at(clock: ManualClock, config: CaptchaSection) -> None:
    harness = CaptchaHarness(clock, config, required_for=("login",))
    proof = harness.proof()
    for sent in (CaptchaProof(), wrong(proof), proof):
        harness.succeed("register", sent)
    harness.succeed("login", proof)
    harness.pool.close()


# --- many at once ---


def test_while_one_request_holds_it_others_are_refused(harness: CaptchaHarness) -> None:
    proof = harness.proof()
    with harness.captchas.guard("register", proof, ALICE), pytest.raises(errors.InvalidCaptcha):
        harness.succeed("register", proof)


@pytest.mark.parametrize("use", EVERYTHING)
def test_fifty_parallel_requests_are_one_success(harness: CaptchaHarness, use: Use) -> None:
    proof = harness.proof()

    async def request() -> str:
        try:
            with harness.captchas.guard(use, proof, ALICE):
                await asyncio.sleep(0)
        except errors.InvalidCaptcha as refusal:
            return refusal.code
        return "success"

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(request() for _request in range(50)))

    outcomes = asyncio.run(all_at_once())
    assert outcomes.count("success") == 1
    assert outcomes.count("invalid_captcha") == 49


# --- bounds ---


def test_challenges_are_bounded_for_each_client_and_in_all(harness: CaptchaHarness) -> None:
    kept = harness.proof(ALICE)
    for _challenge in range(20):
        harness.proof(MALLORY)
    assert len(harness.challenges) == 1 + 10
    harness.succeed("login", kept)


def test_pictures_are_limited_for_each_client(clock: ManualClock, config: CaptchaSection) -> None:
    harness = CaptchaHarness(clock, dataclasses.replace(config, pictures_per_client=(RateLimit.parse("2 per minute"),)))
    harness.proof(MALLORY)
    harness.proof(MALLORY)
    with pytest.raises(errors.RateLimited):
        harness.proof(MALLORY)
    harness.proof(ALICE)
    clock.advance(minutes=1)
    harness.proof(MALLORY)
    harness.pool.close()


def test_answers_are_limited_for_each_client_so_that_guessing_is_slow(
    clock: ManualClock, config: CaptchaSection
) -> None:
    harness = CaptchaHarness(clock, dataclasses.replace(config, answers_per_client=(RateLimit.parse("2 per minute"),)))
    for _guess in range(2):
        with pytest.raises(errors.InvalidCaptcha):
            harness.succeed("login", wrong(harness.proof()), MALLORY)
    right = harness.proof()
    with pytest.raises(errors.RateLimited):
        harness.succeed("login", right, MALLORY)
    clock.advance(minutes=1)
    harness.succeed("login", right, MALLORY)  # what was not looked at is not spent
    harness.pool.close()


# R16
def test_one_subscriber_of_ipv6_evicts_no_other_clients_challenge(clock: ManualClock, config: CaptchaSection) -> None:
    """Mallory has thousands of /64, and asks from each of 150 of them; 100 challenges fit into the store."""
    harness = CaptchaHarness(clock, dataclasses.replace(config, answers_per_client=(RateLimit.parse("2 per minute"),)))
    networks = [f"2001:db8:7:{number:x}::" for number in range(150)]
    many = [Caller(f"{network}1", f"{network}/64", "en", "request-3") for network in networks]
    alice = harness.proof(ALICE)
    guesses = [wrong(harness.proof(caller)) for caller in many][-3:]
    harness.succeed("login", alice)
    refusals: list[type[errors.Refusal]] = [errors.InvalidCaptcha, errors.InvalidCaptcha, errors.RateLimited]
    for guess, caller, refusal in zip(guesses, many, refusals, strict=False):
        with pytest.raises(refusal):
            harness.succeed("login", guess, caller)
    harness.pool.close()


def test_what_names_no_challenge_does_not_count_as_an_answer(clock: ManualClock, config: CaptchaSection) -> None:
    harness = CaptchaHarness(clock, dataclasses.replace(config, answers_per_client=(RateLimit.parse("1 per minute"),)))
    for _request in range(10):
        with pytest.raises(errors.InvalidCaptcha):
            harness.succeed("login", CaptchaProof("unknown", "KXPA"))
    harness.succeed("login", harness.proof())
    harness.pool.close()


async def test_too_many_waiting_pictures_are_refused_at_once(clock: ManualClock, config: CaptchaSection) -> None:
    brush = threading.Event()

    def draw_slowly(text: str) -> bytes:
        assert brush.wait(10)
        return render(text)

    harness = CaptchaHarness(clock, config, draw_slowly)
    begun: list[Awaitable[object]] = [
        asyncio.ensure_future(harness.captchas.generate(ALICE)) for _picture in range(1 + MAX_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(errors.Overloaded):
        await harness.captchas.generate(ALICE)
    brush.set()
    assert len(await asyncio.gather(*begun)) == 1 + MAX_WAITING
    assert len(harness.challenges) == 1 + MAX_WAITING
    harness.pool.close()


def test_the_hash_of_the_work_is_of_the_salt_and_four_bytes() -> None:
    assert hash_work(bytes(range(16)), 258) == sha256(bytes([*range(16), 0, 0, 1, 2])).hexdigest()


def test_no_two_pieces_of_work_are_alike(harness: CaptchaHarness) -> None:
    offered = [harness.captchas.generate_work(ALICE) for _piece in range(200)]
    assert len({work.salt for work in offered}) == len({work.hash for work in offered}) == 200
