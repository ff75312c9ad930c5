"""No sequence of requests tells whether an address is registered, or to whom.

Mallory sends the same requests about Alice's address, about Bob's, and about one that nobody has, and must get the same
replies. Alice and Bob log in meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regsvc.database.models import OutboxEntry, Verification
from regsvc.notifications.mail.transport import start_code
from tests.support.captchas import answer_to
from tests.support.live_api import LiveApi
from tests.support.services import PASSWORD, MakeServices, ServiceHarness

DOMAIN = "bücher.example.org"
OWNERS = {"Alice": "jürgen", "Bob": "rené"}
LOCAL_PARTS = ("jürgen", "rené", "zoë")
"""Of Alice's address, of Bob's, and of nobody's."""

Spelling = Callable[[str], str]
Answer = tuple[int, dict[str, Any], str | None]
"""Status, body and `Retry-After`."""

SPELLINGS: tuple[Spelling, ...] = (
    lambda local: f"{local}@{DOMAIN}",
    lambda local: f"{local.upper()}@{DOMAIN.upper()}",
    lambda local: f"{local}@bücher。example．org",
    lambda local: f"{local}@ｂücher.example.org",
    lambda local: f"{local}@xn--bcher-kva.example.org",
    lambda local: f'"{local}"@{DOMAIN}',
    lambda local: f"\t{local}@{DOMAIN} ",
    lambda local: f"{local}+tag@{DOMAIN}",
)
NAMES: tuple[Spelling, ...] = (
    lambda _local: "Alice",
    lambda _local: "bob",
    lambda _local: "Nobody",
    lambda _local: "@",
)
HOME = "203.0.113.50"
"""From where Alice has logged in, as somebody of the same household may do, too."""
CLIENTS = (HOME, "203.0.113.60", "198.51.100.1", "198.51.100.2", "2001:db8:1::1")
"""The second one is Bob's."""

Step = Callable[["Crowd", str], object]


@dataclass
class Crowd:
    """Everybody's requests to one API."""

    services: ServiceHarness
    api: LiveApi
    captchas: bool = True

    def post(self, path: str, client: str, **body: object) -> Answer:
        reply = self.api.request("POST", path, body, headers={"X-Forwarded-For": client})
        return reply.status, reply.json, reply.headers.get("Retry-After")

    def log_in(self, name: str, client: str, password: str = PASSWORD, *, with_captcha: bool = False) -> Answer:
        answers = {}
        if with_captcha:
            token = self.api.request("GET", "/api/captcha/generate").json["token"]
            answers = {"captchaToken": token, "captchaAnswer": answer_to(self.services.app, token)}
        return self.post("/api/login", client, username=name, password=password, **answers)

    def replies(self, local_part: str, steps: Sequence[Step]) -> list[object]:
        """Return what Mallory is told when the steps are about this address. All earlier ones are forgotten."""
        self.services.clock.advance(days=2)
        self.log_in("Alice", HOME)
        self.log_in("Bob", CLIENTS[1])
        return [step(self, local_part) for step in steps]


@pytest.fixture
def crowd(make_services: MakeServices) -> Iterator[Crowd]:
    services = make_services(auth__login_limits=["5 per minute"], captcha__answers_per_client=["100000 per minute"])
    for name, local_part in OWNERS.items():
        services.register(name, email=f"{local_part}@{DOMAIN}")
    with LiveApi(services.app.features) as api:
        yield Crowd(services, api)


def fail(spelling: Spelling, client: str, *, with_captcha: bool = False) -> Step:
    return lambda crowd, local: crowd.log_in(spelling(local), client, "a wrong one", with_captcha=with_captcha)


def assert_alike(crowd: Crowd, steps: Sequence[Step]) -> None:
    alices, bobs, nobodys = [crowd.replies(local_part, steps) for local_part in LOCAL_PARTS]
    assert alices == bobs == nobodys


# R1
@pytest.mark.one_database("mariadb")
def test_what_one_spelling_counts_shows_no_other_to_be_the_same_account(crowd: Crowd) -> None:
    written = (*SPELLINGS, *NAMES)
    for first in (*SPELLINGS[1::3], *NAMES[:2]):
        siege = [fail(first, f"198.51.100.{number}") for number in range(6)]
        assert_alike(crowd, [*siege, *(fail(other, f"203.0.113.{number}") for number, other in enumerate(written))])


def test_an_address_is_one_however_it_is_written(crowd: Crowd) -> None:
    """Otherwise each spelling would be worth as many guesses."""
    for spelling in SPELLINGS[:-1]:
        [*_failed, last] = crowd.replies(
            LOCAL_PARTS[0],
            [*(fail(SPELLINGS[0], f"198.51.100.{number}") for number in range(6)), fail(spelling, "198.51.100.9")],
        )
        assert isinstance(last, tuple)
        assert (last[0], last[1]["captchaHelps"], last[2]) == (429, True, "1")


def by_client(step: Callable[..., object]) -> Callable[[Spelling, str], Step]:
    return lambda spelling, client: lambda crowd, local: step(crowd, spelling(local), client)


def mail(path: str, **fields: object) -> Callable[[Spelling, str], Step]:
    return by_client(lambda crowd, written, client: crowd.post(path, client, email=written, **fields))


def owner(name: str, *, by_address: bool, client: str, with_captcha: bool = False) -> Step:
    """Return a right login of an owner, whose reply Mallory does not see."""
    written = f"{OWNERS[name]}@{DOMAIN}" if by_address else name

    def log_in(crowd: Crowd, _local: str) -> None:
        crowd.log_in(written, client, with_captcha=with_captcha)

    return log_in


def wait(seconds: int) -> Step:
    def step(crowd: Crowd, _local: str) -> None:
        crowd.services.clock.advance(seconds=seconds)

    return step


def deliver(crowd: Crowd, _local: str) -> None:
    """Let the mail server accept all that was mailed."""
    for mailed in OutboxEntry.select().where(OutboxEntry.template.in_(("verification_code", "already_registered"))):
        start_code(mailed, crowd.services.app.codes)


def test_a_request_too_soon_tells_nothing_once_a_code_has_expired(crowd: Crowd) -> None:
    """That Mallory's last request is why is told."""
    ask = mail("/api/verify/send")(SPELLINGS[0], CLIENTS[2])
    assert_alike(crowd, [ask, deliver, wait(6 * 60)] * 12)


@pytest.mark.parametrize(("minutes", "tries"), [(4, 1), (6, 0)])
def test_a_wrong_code_is_written_for_as_long_whosever_the_address_is(crowd: Crowd, minutes: int, tries: int) -> None:
    """A code that is never mailed, to a user, expires as others do: else the time that a reply takes would tell."""
    ask, guess = (mail(f"/api/verify/{step}", **fields) for step, fields in (("send", {}), ("check", {"code": "1"})))
    steps = [ask(SPELLINGS[0], CLIENTS[2]), deliver, wait(minutes * 60), guess(SPELLINGS[0], CLIENTS[2])]
    assert_alike(crowd, steps)
    found = Verification.select().order_by(Verification.id.desc()).limit(len(LOCAL_PARTS))
    assert [row.tries for row in found] == [tries] * len(LOCAL_PARTS)


WRONG = {"username": "Carol", "password": PASSWORD, "code": "12345678"}
CLIENT = st.sampled_from(CLIENTS)
WRITTEN = st.sampled_from(SPELLINGS)
FAILURES = st.builds(fail, WRITTEN | st.sampled_from(NAMES), CLIENT, with_captcha=st.booleans())
MAILS = st.sampled_from(
    [
        mail("/api/password/forgot"),
        mail("/api/verify/send"),
        mail("/api/verify/send", purpose="change_email"),
        mail("/api/verify/check", code="12345678"),
        mail("/api/register", **WRONG),
    ]
)
PHONES = st.sampled_from(("203.0.113.98", "2001:db8:2::1"))
RIGHT_LOGINS = st.builds(owner, st.sampled_from(sorted(OWNERS)), by_address=st.booleans(), client=PHONES)
"""From clients of their own: behind one address Mallory would see how often they try, while a delay keeps them out."""
STEPS = (
    FAILURES.map(lambda step: [step])
    | st.tuples(WRITTEN, CLIENT).map(lambda given: [fail(*given)] * 4)
    | st.builds(lambda step, spelling, client: [step(spelling, client)], MAILS, WRITTEN, CLIENT)
    | RIGHT_LOGINS.map(lambda step: [step])
    | st.sampled_from([1, 2, 30, 61, 3600]).map(lambda seconds: [wait(seconds)])
)


@settings(max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, min_size=3, max_size=15))
def test_nothing_mallory_does_tells_whose_an_address_is(crowd: Crowd, steps: list[list[Step]]) -> None:
    assert_alike(crowd, [step for some in steps for step in some])


@pytest.mark.parametrize("is_new", [True, False], ids=["registers", "changes it"])
def test_an_address_typed_in_the_game_is_shown_whoever_has_it(crowd: Crowd, is_new: bool) -> None:
    """Mallory knows of her account what she typed, and not whether another one has that address."""
    services, seen = crowd.services, []
    for number, local_part in enumerate(LOCAL_PARTS):
        name, written = f"Mallory{number}", f"{local_part}@{DOMAIN}"
        services.authme.register(name, PASSWORD, email=written if is_new else f"own{number}@{DOMAIN}")
        services.sync()
        services.decide("approve", name)
        if not is_new:
            services.authme.set_email(name, written)
            services.sync()
        status, reply, _retry_after = crowd.log_in(name, "198.51.100.1")
        assert (status, reply["email"]) == (200, written)
        headers = {"Authorization": f"Bearer {reply['token']}"}
        export = crowd.api.request("GET", "/api/user/export", headers=headers).json
        actions = [entry["action"] for entry in export["audits"]]
        player = {field: export["player"][field] for field in ("plugin", "conflicts")}
        seen.append((export["user"]["isEmailVerified"], player, actions))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("client", [HOME, "198.51.100.3"], ids=["at home", "elsewhere"])
@pytest.mark.parametrize("with_captcha", [False, True], ids=["", "with a captcha"])
def test_nobody_sees_that_alice_logs_in_with_her_address(crowd: Crowd, client: str, with_captcha: bool) -> None:
    siege = [fail(SPELLINGS[0], f"198.51.{number}.1", with_captcha=with_captcha) for number in range(8)]
    alice = owner("Alice", by_address=True, client=client, with_captcha=with_captcha)
    after = [fail(SPELLINGS[0], f"198.51.{number}.2", with_captcha=with_captcha) for number in range(2)]
    assert_alike(crowd, [*siege[:6], wait(2), *siege[6:7], wait(3), alice, *after, wait(30), alice, *after])


# R17
@pytest.mark.parametrize("client", [HOME, "198.51.100.3"], ids=["at home", "elsewhere"])
def test_alice_gets_in_at_home_with_her_address_and_nobody_learns_that_it_is_her_home(
    crowd: Crowd, client: str
) -> None:
    address = SPELLINGS[0](LOCAL_PARTS[0])
    siege = [fail(SPELLINGS[0], f"198.51.{number}.1") for number in range(12)]
    assert_alike(crowd, [*siege, fail(SPELLINGS[0], client), fail(SPELLINGS[0], client)])
    crowd.replies(LOCAL_PARTS[0], siege)
    status, _body, _retry_after = crowd.log_in(address, client)
    assert status == (200 if client == HOME else 429)
