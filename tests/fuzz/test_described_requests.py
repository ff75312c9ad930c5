"""Fuzzing from the OpenAPI document, with valid and invalid requests.

Every reply has to fit the document and must not be a 5xx. `make fuzz` sends 20,000 requests; the suite sends a
twentieth of that, always with the same seed.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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

from regsvc.api.base import Access
from regsvc.api.endpoint import find_contract
from regsvc.api.routes import ROUTES, Route
from tests.support.contract import document
from tests.support.each import assert_each
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack

REQUESTS = int(os.environ.get("COMPANION_FUZZ_REQUESTS", "1000"))
SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))
STREAMS = {"/events"}  # never end; tests/api/test_events.py is theirs


def takes_anything(route: Route) -> bool:
    """Return whether the route reads a query or a body, so that there is something to generate."""
    contract = find_contract(getattr(route.handler, route.method.lower()))
    return contract is not None and contract.request_type is not None


def name_of(route: Route, mode: GenerationMode) -> str:
    return f"{route.method} {route.path} {mode.value}"


FUZZED = [route for route in ROUTES if route.path not in STREAMS]
HOSTS = ("plain", "everything")
WITH_INPUT = [route for route in FUZZED if takes_anything(route)]
EACH = -(-REQUESTS // (len(WITH_INPUT) * len(GenerationMode) * len(HOSTS)))

EVERYTHING: dict[str, dict[str, Any]] = {
    "registration": {"methods": ["email", "captcha"], "approval": False},
    "captcha": {"also_for": ["login", "verify_send"]},
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
    """A stack, and tokens issued before its logins required captchas."""

    stack: Stack
    admin_token: str
    user_token: str

    def token_for(self, route: Route) -> str | None:
        return {Access.PUBLIC: None, Access.USER: self.user_token, Access.ADMIN: self.admin_token}[route.access]


@pytest.fixture(scope="module", params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    is_plain = request.param == "plain"
    mariadb: MariaDBServer | None = request.getfixturevalue("mariadb") if is_plain else None
    with Stack("mariadb" if is_plain else "sqlite", tmp_path_factory.mktemp(request.param), mariadb) as stack:
        found = Host(stack, stack.olivia(), stack.user_token(stack.approved("alice")))
        if not is_plain:
            stack.restart_with(EVERYTHING)
        yield found


@pytest.fixture(scope="module")
def described() -> Any:
    config = SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}})
    return schemathesis.openapi.from_dict(document(), config=config)


@pytest.mark.parametrize("route", WITH_INPUT, ids=[f"{route.method} {route.path}" for route in WITH_INPUT])
def test_nothing_else_comes_back(host: Host, described: Any, route: Route) -> None:
    assert_each(GenerationMode, lambda mode: send_many(host, described, route, mode))


def send_many(host: Host, described: Any, route: Route, mode: GenerationMode) -> None:
    """Send `EACH` generated requests, and check each reply against the document."""
    token = host.token_for(route)
    base_url = f"http://127.0.0.1:{host.stack.daemon.port}"
    cases = described[route.path][route.method].as_strategy(generation_mode=mode)

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
