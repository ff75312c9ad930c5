"""SQL statements per request on MariaDB: no request asks for more than its bound, over HTTP and with all services.

Counted is what the database driver sends, whoever sends it, but for the beginning and end of transactions. Nothing is
delivered meanwhile: no background job runs.
"""

from collections.abc import Iterator

import pytest

from regsvc.core.email_address import parse_email
from tests.support.authme.authme_like import long_ago
from tests.support.live_api import LiveApi, Reply
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD
from tests.support.statements import recorded_statements

pytestmark = pytest.mark.every_database


@pytest.fixture(params=["mariadb"])
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Host:
    """Services and API of a host. `statements` are those of the last request."""

    def __init__(self, services: ServiceHarness, api: LiveApi) -> None:
        self.services = services
        self.statements: list[str] = []
        self._api = api

    def request(self, method: str, path: str, body: object = None, token: str | None = None) -> Reply:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        with recorded_statements() as self.statements:
            return self._api.request(method, path, body, headers)

    def send(self, name: str) -> Reply:
        return self.request("POST", "/api/verify/send", {"email": f"{name}@example.org"})

    def register(self, name: str, **fields: object) -> Reply:
        body = {"username": name, "email": f"{name}@example.org", "password": PASSWORD, "code": self.code(name)}
        return self.request("POST", "/api/register", body | fields)

    def code(self, name: str) -> str:
        """Return the verification code on its way to this person."""
        codes = self.services.app.codes
        issued = codes.find_sendable(codes.issue(parse_email(f"{name}@example.org").key, "register", CALLER))
        assert issued is not None
        return codes.code_of(issued)

    def link_token(self, name: str) -> str:
        """Return the token of a link on its way to this person."""
        user, links = self.services.user(name), self.services.app.links
        return links.token_of(links.issue(user.id, "reset", str(user.email_key)))

    def olivia(self) -> str:
        """Return an admin token."""
        body = {"username": OPERATOR, "password": OPERATORS_PASSWORD}
        token = self.request("POST", "/api/admin/login", body).json["token"]
        assert isinstance(token, str)
        return token

    def assert_at_most(self, bound: int) -> None:
        """Assert that the last request sent no more statements than this."""
        assert 0 < len(self.statements) <= bound, "\n".join([f"{len(self.statements)}, not {bound}:", *self.statements])


@pytest.fixture
def host(make_services: MakeServices) -> Iterator[Host]:
    services = make_services(verification__max_tries=9)
    long_ago(services.table).register(OPERATOR, OPERATORS_PASSWORD)
    services.sync()
    with LiveApi(services.app.features) as api:
        host = Host(services, api)
        assert host.register("first").status == 201  # what is read only once
        yield host


def test_a_code(host: Host) -> None:
    assert host.send("alice").status == 200
    host.assert_at_most(6)


def test_a_code_again(host: Host) -> None:
    host.send("alice")
    host.services.clock.advance(minutes=1)
    assert host.send("alice").status == 200
    host.assert_at_most(7)


def test_a_notice_instead_of_a_code(host: Host) -> None:
    assert host.send("first").status == 200
    host.assert_at_most(7)


def test_a_code_too_soon(host: Host) -> None:
    host.send("alice")
    assert host.send("alice").status == 429
    host.assert_at_most(3)  # also whether this client was sent the code, which it is told


def test_a_registration(host: Host) -> None:
    assert host.register("alice").status == 201
    host.assert_at_most(8)


def test_an_application_that_waits(host: Host) -> None:
    token = host.register("alice").json["applicationToken"]
    assert host.request("GET", f"/api/application?token={token}").json["place"] == 2
    host.assert_at_most(7)
    host.request("GET", f"/api/application?token={token}")
    host.assert_at_most(5)


def test_a_registration_with_a_wrong_code(host: Host) -> None:
    """The last one looks for a code that was right once: the reply may have been lost."""
    host.send("alice")
    host.register("alice", code="0")  # asks once whether the database is a cluster
    assert host.register("alice", code="0").status == 422
    host.assert_at_most(3)


def test_a_registration_of_a_taken_name(host: Host) -> None:
    assert host.register("alice", username="First").json["code"] == "username_taken"
    host.assert_at_most(8)


def test_a_forgotten_password_takes_as_many_for_an_unknown_address(host: Host) -> None:
    counts = set()
    for name in ("first", "nobody", "first", "somebody"):
        host.services.clock.advance(hours=1)
        assert host.request("POST", "/api/password/forgot", {"email": f"{name}@example.org"}).status == 200
        counts.add(len(host.statements))
    assert len(counts) == 1, counts


def test_the_list_of_users(host: Host) -> None:
    host.services.decide("approve", "first")
    assert len(host.request("GET", "/api/admin/users", token=host.olivia()).json["users"]) == 2
    host.assert_at_most(2)


def test_the_review_queue(host: Host) -> None:
    """Two more statements: earlier decisions about those who wait, and all other signals."""
    assert len(host.request("GET", "/api/admin/users?status=pending", token=host.olivia()).json["users"]) == 1
    host.assert_at_most(4)


def test_the_queue_in_figures(host: Host) -> None:
    """Two fewer within a minute, for which the usual wait is kept."""
    token = host.olivia()
    assert host.request("GET", "/api/admin/overview", token=token).json["waiting"] == 1
    host.assert_at_most(6)
    assert host.request("GET", "/api/admin/overview", token=token).json["waiting"] == 1
    host.assert_at_most(4)


def test_an_approval(host: Host) -> None:
    """The first one after a start also asks for the engine of AuthMe's table."""
    host.services.decide("approve", "first")
    host.register("alice")
    assert host.request("POST", "/api/admin/user/approve", {"username": "alice"}, host.olivia()).status == 200
    host.assert_at_most(11)  # also the answers, which the review keeps


def test_a_ban(host: Host) -> None:
    host.services.decide("approve", "first")
    body = {"username": "first", "reason": "griefing"}
    assert host.request("POST", "/api/admin/user/ban", body, host.olivia()).status == 200
    host.assert_at_most(10)


def test_a_login(host: Host) -> None:
    """One more statement from a client that has not logged in within the last minute: it is recorded as known."""
    host.services.decide("approve", "first")
    body = {"username": "first", "password": PASSWORD}
    assert host.request("POST", "/api/login", body).status == 200
    host.assert_at_most(7)
    assert host.request("POST", "/api/login", body).status == 200
    host.assert_at_most(6)


def test_a_password_set_by_an_admin(host: Host) -> None:
    """Five are for the notice: its limit, the link that undoes the change, and the mail."""
    host.services.decide("approve", "first")
    body = {"username": "first", "password": "another-secret"}
    assert host.request("POST", "/api/admin/user/password", body, host.olivia()).status == 200
    host.assert_at_most(17)


def test_a_new_password_of_ones_own(host: Host) -> None:
    host.services.decide("approve", "first")
    token = host.request("POST", "/api/login", {"username": "first", "password": PASSWORD}).json["token"]
    body = {"currentPassword": PASSWORD, "newPassword": "another-secret"}
    assert host.request("POST", "/api/user/password", body, token).status == 200
    host.assert_at_most(18)


def test_a_password_by_a_mailed_link(host: Host) -> None:
    """Five end what was made by a right, and five are for the notice."""
    host.services.decide("approve", "first")
    token = host.link_token("first")
    body = {"token": token, "newPassword": "another-secret"}
    assert host.request("POST", "/api/password/reset", body).status == 200
    host.assert_at_most(24)
