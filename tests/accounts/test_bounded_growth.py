"""No client that is logged in fills a table: each route of a player has a limit, or writes nothing that stays."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from regsvc.app.routes import ROUTES
from regsvc.auth.entitlement import Principal
from regsvc.core.rights import EVERYTHING
from regsvc.database.audit import Actor
from regsvc.database.models import BaseModel, OutboxEntry
from regsvc.http.route import USER
from tests.support.live_api import LiveApi, Reply
from tests.support.services import PASSWORD, MakeServices, ServiceHarness

CALLS = 80
"""More than a limit allows in an hour."""
FEW = 70
PER_HOUR = 60
RIGHT: dict[str, object] = {"currentPassword": PASSWORD}
BODIES: Mapping[str, Callable[[str], dict[str, object]]] = {
    "/api/user/membership/look": lambda _session: {},
    "/api/logout": lambda _session: {},
    "/api/user/password": lambda _session: {**RIGHT, "newPassword": PASSWORD},
    "/api/user/update": lambda _session: {**RIGHT, "email": "other@example.org", "code": "12345678"},
    "/api/user/delete": lambda _session: {"currentPassword": "a wrong one"},  # the right one ends everything
    "/api/user/sessions/end": lambda session: {"session": session},
    "/api/user/made/end": lambda _session: RIGHT,
    "/api/user/membership/ask": lambda _session: {"text": "x" * 500},
    "/api/user/totp/begin": lambda _session: RIGHT,
    "/api/user/totp/confirm": lambda _session: {**RIGHT, "totp": "000000"},
    "/api/user/totp/recovery-codes": lambda _session: RIGHT,
    "/api/user/totp/off": lambda _session: RIGHT,
}
"""What Mallory sends to each route of a player that changes anything, again and again."""
TABLES = BaseModel.__subclasses__()


class Player:
    """Mallory, who waits for review and logs in again whenever a session has ended."""

    def __init__(self, services: ServiceHarness, api: LiveApi) -> None:
        self.services = services
        self._api = api
        self._token = ""

    def send(self, method: str, path: str, body: object = None, client: str = "203.0.113.50") -> Reply:
        headers = {"X-Forwarded-For": client, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}
        return self._api.request(method, path, body, headers)

    def log_in(self, client: str = "203.0.113.50", password: str = PASSWORD) -> Reply:
        self._token = ""
        reply = self.send("POST", "/api/login", {"username": "Mallory", "password": password}, client)
        self._token = reply.json.get("token", "")
        return reply

    def session(self) -> str:
        """Return the id of a new session; empty if there were too many."""
        self.log_in()
        sessions: list[dict[str, Any]] = self.send("GET", "/api/user/sessions").json.get("sessions", [])
        return next((str(each["id"]) for each in sessions if each["isCurrent"]), "")


@pytest.fixture
def mallory(make_services: MakeServices) -> Iterator[Player]:
    services = make_services(membership__renew="ask")
    services.register("Mallory")
    with LiveApi(services.app.features) as api:
        yield Player(services, api)


def rows() -> dict[str, int]:
    return {table.__name__: table.select().count() for table in TABLES}


def occurrences(services: ServiceHarness, action: str) -> list[int]:
    return [entry.occurrences for entry in services.audits(action, "Mallory")]


# R13
@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.access is USER and route.method == "POST"])
def test_no_route_of_a_player_fills_a_table(mallory: Player, path: str) -> None:
    before, session = rows(), mallory.session()
    for _call in range(CALLS):
        if mallory.send("POST", path, BODIES[path](session)).status == 401:
            session = mallory.session()
            mallory.send("POST", path, BODIES[path](session))
    grown = {name: count - before[name] for name, count in rows().items() if count > before[name] + FEW}
    assert not grown


# R13
def test_logging_in_and_out_all_day_is_a_few_entries_with_a_count(mallory: Player) -> None:
    statuses = []
    for number in range(PER_HOUR + 1):
        statuses.append(mallory.log_in("203.0.113.50" if number % 2 else "198.51.100.1").status)
        mallory.send("POST", "/api/logout")
    assert statuses == [200] * PER_HOUR + [429]
    assert occurrences(mallory.services, "user.logged_in") == [PER_HOUR // 2] * 2, "one for each client"
    assert occurrences(mallory.services, "user.logged_out") == [PER_HOUR]

    mallory.services.clock.advance(hours=1)
    assert mallory.log_in().status == 200
    assert occurrences(mallory.services, "user.logged_in") == [PER_HOUR // 2] * 2 + [1], "another hour"


def test_a_link_lets_her_in_whom_a_thief_with_the_password_kept_out(mallory: Player) -> None:

    while mallory.log_in("198.51.100.1").status == 200:
        pass
    assert mallory.log_in().status == 429
    services = mallory.services.app
    link, _is_for_team = mallory.services.app.worker.run_here(
        services.password_mails.create_link, "Mallory", Principal(Actor("cli"), EVERYTHING)
    )
    reset = {"token": link.link.partition("#token=")[2], "newPassword": "a-new-secret-1"}
    assert mallory.send("POST", "/api/password/reset", reset).status == 200
    assert mallory.log_in(password="a-new-secret-1").status == 200


# --- nor does anybody raise an alarm ---


@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize("path", ["/api/verify/send", "/api/verify/check", "/api/register", "/api/password/forgot"])
def test_what_a_service_is_never_passed_is_refused_at_once(make_services: MakeServices, path: str) -> None:
    """Quotes in an address: over HTTP the mail would be given up, which is an error in the log and in the metrics."""
    services = make_services(mail__backend="http", mail__http_provider="resend", mail__http_key="k")
    body = {"email": '"a b"@example.org', "code": "123456", "username": "Mallory", "password": PASSWORD}
    with LiveApi(services.app.features) as api:
        reply = api.request("POST", path, body)
    assert (reply.status, reply.json["code"], reply.json["field"]) == (422, "invalid_email", "email")
    assert OutboxEntry.select().count() == 0
