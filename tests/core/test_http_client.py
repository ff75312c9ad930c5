"""The HTTP client for outgoing requests: what bounds it, over real HTTP."""

import asyncio
import ssl
import time
from datetime import timedelta

import pytest

from regsvc import __version__
from regsvc.core.http_client import HttpClient
from regsvc.core.http_response import NoResponse, PrivateAddress, Response
from tests.support.certificate import Certificate
from tests.support.peers.release_feed import FeedReply, ReleaseFeed
from tests.support.ports import free_port

KIB = 1024


def get(
    url: str,
    *,
    seconds: float = 5,
    public_only: bool = False,
    max_redirects: int = 0,
    tls: ssl.SSLContext | None = None,
) -> Response:
    async def fetch() -> Response:
        with HttpClient(timedelta(seconds=seconds), max_body=64 * KIB, public_only=public_only, tls=tls) as client:
            return await client.get(url, {"X-Asked": "yes"}, max_redirects=max_redirects)

    return asyncio.run(fetch())


def reason(answer: FeedReply, **options: float) -> str:
    with ReleaseFeed(answer) as server, pytest.raises(NoResponse) as failure:
        get(server.address, **options)  # type: ignore[arg-type]
    return str(failure.value)


def test_a_response_is_read_whole() -> None:
    with ReleaseFeed(FeedReply(404, b"not here", {"X-Told": "something"})) as server:
        response = get(server.address)
    assert (response.status, response.body, response.headers["x-told"]) == (404, b"not here", "something")
    [asked] = server.requests
    assert (asked["user-agent"], asked["x-asked"]) == (f"companion/{__version__}", "yes")
    assert "accept-encoding" not in asked


def test_a_body_is_bounded() -> None:
    with ReleaseFeed(FeedReply(body=b"x" * 64 * KIB)) as server:
        assert len(get(server.address).body) == 64 * KIB
    assert reason(FeedReply(body=b"x" * (64 * KIB + 1)))


def test_headers_are_bounded() -> None:
    assert reason(FeedReply(headers={"X-Long": "x" * 17 * KIB}))


def test_time_is_bounded_for_all_requests_together() -> None:
    started = time.monotonic()
    assert reason(FeedReply(is_silent=True), seconds=0.1) == "it took too long to answer"
    assert time.monotonic() - started < 5


def test_redirects_are_not_followed_unless_told_to(certificate: Certificate) -> None:
    redirect, tls = FeedReply(302, headers={"Location": "/elsewhere"}), certificate.server_context()
    trusted = ssl.create_default_context(cafile=str(certificate.certificate_file))
    with ReleaseFeed(redirect, tls) as server:
        assert get(server.address, tls=trusted).status == 302
        with pytest.raises(NoResponse, match="it redirects too often"):
            get(server.address, max_redirects=2, tls=trusted)
        assert len(server.requests) == 1 + 3
    elsewhere = FeedReply(302, headers={"Location": "https://127.0.0.1:1/"})
    assert reason(elsewhere, max_redirects=1) == "it redirects to another server"
    assert "not https" in reason(FeedReply(302, headers={"Location": "/elsewhere"}), max_redirects=1)
    assert "not https" in reason(FeedReply(302, headers={"Location": "https://[::1"}), max_redirects=1)


def test_a_private_address_is_refused_where_only_public_ones_may_be_asked() -> None:
    with ReleaseFeed(FeedReply()) as server, pytest.raises(PrivateAddress):
        get(server.address, public_only=True)
    assert server.requests == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/secret-token", "gopher://127.0.0.1/secret-token"])
def test_errors_do_not_repeat_the_address(url: str) -> None:
    with pytest.raises(NoResponse) as failure:
        get(url.format(port=free_port()))
    assert "secret-token" not in str(failure.value)
