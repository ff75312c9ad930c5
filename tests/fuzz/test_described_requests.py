"""Fuzzing from the OpenAPI document, with valid and invalid requests.

Every reply has to fit the document and must not be a 5xx. `make fuzz` sends 20,000 requests; the suite sends each
route two to a host, always with the same seed, and has a host with every feature in legacy mode alone.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from regsvc.app.routes import ROUTES
from regsvc.http.route import Access, Route
from regsvc.legacy.routes import legacy_routes
from tests.support.contract import document
from tests.support.each import assert_each
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack

IS_LONG = "COMPANION_FUZZ_REQUESTS" in os.environ
REQUESTS = int(os.environ.get("COMPANION_FUZZ_REQUESTS", "300"))
SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))
STREAMS = {"/events"}  # never end; tests/api/test_event_streams.py is theirs


def takes_anything(route: Route) -> bool:
    """Return whether the route reads a query or a body, so that there is something to generate."""
    return route.path not in STREAMS and route.request_type is not None


def name_of(route: Route, mode: GenerationMode) -> str:
    return f"{route.method} {route.path} {mode.value}"


HOSTS = ("plain", "everything", "legacy") if IS_LONG else ("plain", "legacy")
WITH_INPUT = [route for route in legacy_routes(ROUTES) if takes_anything(route)]
EACH = -(-REQUESTS // (len(WITH_INPUT) * len(GenerationMode) * len(HOSTS)))

EVERYTHING: dict[str, dict[str, Any]] = {
    "registration": {"methods": ["email", "captcha"], "approval": False},
    "captcha": {"also_for": ["login", "verify_send", "forgot"]},
    "questionnaire": {"file": str(Path(__file__).parents[2] / "conf" / "questionnaire.toml")},
    "chat": {
        "platform": "custom",
        "client_id": "companion",
        "client_secret": "a-secret-of-the-tests",
        "authorize_url": "http://127.0.0.1:9/authorize",
        "token_url": "http://127.0.0.1:9/token",
        "profile_url": "http://127.0.0.1:9/profile",
        "required": True,
    },
    "bedrock": {"enabled": True},
}
"""The config of a host with every feature switched on; its chat provider is unreachable."""
CONFIG_OF: dict[str, dict[str, dict[str, Any]]] = {
    "plain": {},
    "everything": EVERYTHING,
    "legacy": {**EVERYTHING, "http": {"legacy_status": True}},
}
FOR_FRONT_ENDS = {"/api/check-whitelist", *(f"/api/forgot-password/{step}" for step in ("send", "code", "reset"))}
"""Routes that exist in legacy mode only."""

ANSWERS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
AWAY = {503}
"""The only 5xx allowed: the chat provider is unreachable."""


@dataclass(frozen=True)
class Host:
    """A stack, tokens issued before its logins required captchas, and the document of its API."""

    stack: Stack
    admin_token: str
    user_token: str
    routes: Iterable[Route]
    described: Any

    def find(self, route: Route) -> Route | None:
        """Return the route of this host that has the path and method of `route`."""
        return next((own for own in self.routes if (own.method, own.path) == (route.method, route.path)), None)

    def token_for(self, route: Route) -> str | None:
        return {
            Access.PUBLIC: None,
            Access.PUBLIC_WITH_ANY_TOKEN: self.user_token,
            Access.USER: self.user_token,
            Access.ADMIN: self.admin_token,
        }[route.access]


@pytest.fixture(scope="module", params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    name: str = request.param
    is_plain, is_legacy = name == "plain", name == "legacy"
    mariadb: MariaDBServer | None = request.getfixturevalue("mariadb") if is_plain else None
    with Stack("mariadb" if is_plain else "sqlite", tmp_path_factory.mktemp(name), mariadb) as stack:
        admin_token, user_token = stack.olivia(), stack.user_token(stack.approved("alice"))
        if not is_plain:
            stack.restart_with(CONFIG_OF[name])
        routes = legacy_routes(ROUTES) if is_legacy else ROUTES
        yield Host(stack, admin_token, user_token, routes, describe(is_legacy=is_legacy))


@cache
def describe(*, is_legacy: bool) -> Any:
    """Return the document as the fuzzer reads it, which keeps what it generates from."""
    config = SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}})
    return schemathesis.openapi.from_dict(document(is_legacy=is_legacy), config=config)


@pytest.mark.parametrize("route", WITH_INPUT, ids=[f"{route.method} {route.path}" for route in WITH_INPUT])
def test_nothing_else_comes_back(host: Host, route: Route) -> None:
    own = host.find(route)
    if own is None:
        assert route.path in FOR_FRONT_ENDS
        assert host.stack.get(route.path).status == 404
    else:
        assert_each(GenerationMode, lambda mode: send_many(host, own, mode))


def send_many(host: Host, route: Route, mode: GenerationMode) -> None:
    """Send `EACH` generated requests, and check each reply against the document."""
    token = host.token_for(route)
    base_url = f"http://127.0.0.1:{host.stack.daemon.port}"
    cases = host.described[route.path][route.method].as_strategy(generation_mode=mode)

    answers: Counter[int] = Counter()
    with requests.Session() as session:

        @seed(SEED)
        @settings(
            max_examples=EACH,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases)
        def send(case: Case[Any]) -> None:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            response = case.call(base_url=base_url, session=session, headers=headers, allow_redirects=False)
            answers[response.status_code] += 1
            assert response.status_code < 500 or response.status_code in AWAY, response.text
            case.validate_response(response, checks=ANSWERS)

        send()
    print(f"{name_of(route, mode)}: {dict(sorted(answers.items()))}")
    assert answers.total() >= EACH * 0.9, "the fuzzer found too little to send"


def test_nothing_of_it_left_a_trace_of_a_bug(host: Host) -> None:
    assert not [line for line in host.stack.daemon.log if "bug in" in line]
