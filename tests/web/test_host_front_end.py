"""The host's own front end beside the API: what browsers get, and which paths take precedence."""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from tornado.netutil import bind_sockets

from regsvc.config.host_sections import HttpSection
from regsvc.config.sections import Config
from regsvc.web import host_front_end
from regsvc.web.host_front_end import front_end_rules
from regsvc.web.pages import PAGES
from tests.conftest import MakeDaemon
from tests.support.command_line import companion
from tests.support.live_api import LiveApi, Reply, make_features
from tests.support.watching import ask_until

PAGE = b"<!doctype html><title>Oakvale</title>"
SCRIPT = b"console.log('hi')\n"
MIB = 1024 * 1024


class LiveFrontEnd(LiveApi):
    """The API with our pages and a front end beside it, as the daemon serves them."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        self._rules = front_end_rules(folder)
        super().__init__(make_features(config or Config()), pages=[*PAGES, *self._rules])

    @property
    def transfers(self) -> int:
        """Files on their way at this moment."""
        [(_pattern, _handler, options)] = self._rules
        under_way: int = options["front_end"].transfers
        return under_way

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = self._make_server()
        sockets = bind_sockets(0, "127.0.0.1")
        self.port = sockets[0].getsockname()[1]
        server.add_sockets(sockets)
        self._is_ready.set()
        await self._stop.wait()
        server.stop()
        await server.close_all_connections()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("front-end")
    (root / "assets").mkdir()
    (root / "index.html").write_bytes(PAGE)
    (root / "assets" / "index-BkYd3kQ2.js").write_bytes(SCRIPT)
    (root / "digits.txt").write_bytes(b"0123456789")
    (root / "empty.txt").write_bytes(b"")
    (root / "large.zip").write_bytes(os.urandom(MIB) * 12)
    (root / "set-password").write_bytes(b"a trap")
    (root / ".env").write_bytes(b"hunter2")
    os.utime(root / "digits.txt", (1_700_000_000, 1_700_000_000))
    return root


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[LiveFrontEnd]:
    with LiveFrontEnd(folder) as live:
        yield live


def get(site: LiveApi, path: str, headers: Mapping[str, str] | None = None) -> Reply:
    return site.request("GET", path, headers=headers)


# --- What lies where ---


@pytest.mark.parametrize("path", ["/", "/index.html", "/login", "/users/Alice?tab=mails", "/health", "/docs2"])
def test_a_page_is_asked_for_anew_each_time(site: LiveFrontEnd, path: str) -> None:
    reply = get(site, path)
    assert (reply.status, reply.content) == (200, PAGE)
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-cache"


def test_a_script_with_a_hash_is_kept_for_ever(site: LiveFrontEnd) -> None:
    reply = get(site, "/assets/index-BkYd3kQ2.js")
    assert (reply.status, reply.content) == (200, SCRIPT)
    assert reply.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["/", "/digits.txt", "/gone.js", "/.env"])
def test_every_reply_has_the_headers_of_the_services(site: LiveFrontEnd, path: str) -> None:
    headers = get(site, path, {"X-Request-ID": "r-1"}).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Request-ID"] == "r-1"
    assert "Server" not in headers
    assert "Content-Security-Policy" not in headers


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nothing", "/api/admin/nothing"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_below_api_everything_is_json(site: LiveFrontEnd, method: str, path: str) -> None:
    reply = site.request(method, path)
    assert (reply.status, reply.json["code"]) == (404, "unknown_path")
    assert reply.headers["Cache-Control"] == "no-store"
    assert get(site, "/api/config").json["success"] is True


@pytest.mark.parametrize(
    "path", ["/.env", "/../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/%61pi/config", "/gone.js"]
)
def test_what_is_not_there_is_told_in_plain_words(site: LiveFrontEnd, path: str) -> None:
    reply = get(site, path, {"Accept-Language": "zh"})
    assert (reply.status, reply.content.decode()) == (404, "页面不存在。\n")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_files_are_only_read(site: LiveFrontEnd, method: str) -> None:
    reply = site.request(method, "/login")
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET, HEAD"
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_without_a_folder_there_is_no_front_end() -> None:
    assert front_end_rules(None) == []
    with LiveApi(make_features(Config())) as api:
        assert get(api, "/").json["code"] == "unknown_path"


# --- Asking for less ---


@pytest.mark.parametrize("path", ["/", "/digits.txt", "/large.zip"])
def test_a_look_at_the_headers(site: LiveFrontEnd, path: str) -> None:
    whole, head = get(site, path), site.request("HEAD", path)
    assert (head.status, head.content) == (200, b"")
    for name in ("Content-Length", "Content-Type", "Etag", "Last-Modified", "Accept-Ranges"):
        assert head.headers[name] == whole.headers[name]
    assert int(whole.headers["Content-Length"]) == len(whole.content)


def test_what_the_browser_has_is_not_sent_again(site: LiveFrontEnd) -> None:
    headers = get(site, "/digits.txt").headers
    tag, modified = headers["Etag"], headers["Last-Modified"]
    assert modified == "Tue, 14 Nov 2023 22:13:20 GMT"
    for known in (
        {"If-None-Match": tag},
        {"If-None-Match": f'"other", W/{tag}'},
        {"If-None-Match": "*"},
        {"If-Modified-Since": modified},
        {"If-Modified-Since": formatdate(1_800_000_000, usegmt=True)},
    ):
        reply = get(site, "/digits.txt", known)
        assert (reply.status, reply.content) == (304, b""), known
        assert reply.headers["Etag"] == tag
        assert reply.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(
    "known",
    [
        {"If-None-Match": '"another"'},
        {"If-None-Match": '"another"', "If-Modified-Since": formatdate(1_800_000_000, usegmt=True)},
        {"If-Modified-Since": formatdate(1_600_000_000, usegmt=True)},
        {"If-Modified-Since": "yesterday"},
        {"If-Modified-Since": "Tue, 99 Nov 99999 99:99:99 GMT"},
    ],
)
def test_what_has_changed_is_sent_whole(site: LiveFrontEnd, known: dict[str, str]) -> None:
    reply = get(site, "/digits.txt", known)
    assert (reply.status, reply.content) == (200, b"0123456789")


@pytest.mark.parametrize(
    ("wanted", "content", "range_"),
    [
        ("bytes=0-3", b"0123", "bytes 0-3/10"),
        ("bytes=4-", b"456789", "bytes 4-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=9-9", b"9", "bytes 9-9/10"),
        ("bytes=5-100", b"56789", "bytes 5-9/10"),
        ("bytes=-100", b"0123456789", "bytes 0-9/10"),
    ],
)
def test_a_part_is_sent_alone(site: LiveFrontEnd, wanted: str, content: bytes, range_: str) -> None:
    reply = get(site, "/digits.txt", {"Range": wanted})
    assert (reply.status, reply.content) == (206, content)
    assert reply.headers["Content-Range"] == range_
    assert reply.headers["Content-Length"] == str(len(content))


@pytest.mark.parametrize("wanted", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=999999999999999999-"])
def test_a_part_that_is_not_there_is_refused(site: LiveFrontEnd, wanted: str) -> None:
    reply = get(site, "/digits.txt", {"Range": wanted})
    assert (reply.status, reply.content) == (416, b"")
    assert reply.headers["Content-Range"] == "bytes */10"


@pytest.mark.parametrize(
    "wanted", ["bytes=0-1,4-5", "bytes=5-3", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=" + "9" * 40 + "-", ""]
)
def test_what_we_cannot_cut_comes_whole(site: LiveFrontEnd, wanted: str) -> None:
    reply = get(site, "/digits.txt", {"Range": wanted})
    assert (reply.status, reply.content) == (200, b"0123456789")


def test_a_part_of_another_file_is_not_wanted(site: LiveFrontEnd) -> None:
    headers = get(site, "/digits.txt").headers
    for known in (headers["Etag"], headers["Last-Modified"]):
        assert get(site, "/digits.txt", {"Range": "bytes=0-1", "If-Range": known}).status == 206
    assert get(site, "/digits.txt", {"Range": "bytes=0-1", "If-Range": '"older"'}).status == 200


def test_an_empty_file_is_empty(site: LiveFrontEnd) -> None:
    reply = get(site, "/empty.txt")
    assert (reply.status, reply.content, reply.headers["Content-Length"]) == (200, b"", "0")
    assert get(site, "/empty.txt", {"Range": "bytes=0-"}).status == 416


# --- Large files, slow clients ---


def test_a_large_file_arrives_whole(site: LiveFrontEnd, folder: Path) -> None:
    assert get(site, "/large.zip").content == (folder / "large.zip").read_bytes()


def begin_download(site: LiveFrontEnd, path: str = "/large.zip") -> socket.socket:
    """A client with a small window that asks for a large file and reads nothing but its first byte."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(20)
    client.connect(("127.0.0.1", site.port))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert client.recv(1) == b"H"
    return client


def bytes_left(client: socket.socket) -> int:
    """Return the number of bytes until the connection ends, properly or not."""
    count = 0
    try:
        while piece := client.recv(65536):
            count += len(piece)
    except ConnectionResetError:
        return count
    return count


def test_a_client_that_does_not_read_keeps_nobody_waiting(site: LiveFrontEnd) -> None:
    with begin_download(site):
        assert get(site, "/").content == PAGE
        assert get(site, "/api/config").status == 200
    ask_until(lambda: site.transfers, lambda transfers: transfers == 0)


def test_a_client_that_does_not_read_is_cut_off(folder: Path) -> None:
    impatient = Config(http=HttpSection(write_timeout=timedelta(milliseconds=100)))
    with LiveFrontEnd(folder, impatient) as site, begin_download(site) as client:
        ask_until(lambda: site.transfers, lambda transfers: transfers == 0)
        assert bytes_left(client) < 12 * MIB


def test_so_many_are_served_at_a_time(site: LiveFrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_front_end, "MAX_TRANSFERS", 1)
    with begin_download(site):
        reply = get(site, "/")
        assert reply.status == 503
        assert int(reply.headers["Retry-After"]) >= 1
    ask_until(lambda: site.transfers, lambda transfers: transfers == 0)
    assert get(site, "/").status == 200


def test_a_file_that_becomes_shorter_is_not_taken_for_whole(tmp_path: Path) -> None:
    file = tmp_path / "shrinking.zip"
    file.write_bytes(os.urandom(MIB) * 12)
    with LiveFrontEnd(tmp_path) as site, begin_download(site, "/shrinking.zip") as client:
        os.truncate(file, 0)
        assert bytes_left(client) < 12 * MIB


# --- The real process ---


def test_the_daemon_serves_it(daemon: MakeDaemon, tmp_path: Path) -> None:
    root = tmp_path / "site"
    root.mkdir()
    (root / "index.html").write_bytes(PAGE)
    served = daemon({"http": {"web_root": str(root)}}).start()
    assert served.get("/somewhere").body == PAGE
    assert served.get("/health/alive").status == 200
    assert served.get("/metrics").text.startswith("# HELP")
    assert served.get("/api/nothing").json["code"] == "unknown_path"
    assert served.get("/events").json["code"] == "unauthorized"


@pytest.mark.parametrize("wrong", ["missing", "file"])
def test_a_folder_that_is_none_stops_the_start(daemon: MakeDaemon, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    config: dict[str, dict[str, Any]] = {"http": {"web_root": str(tmp_path / wrong)}}
    finished = companion("check-config", config=daemon(config).config_file)
    assert finished.status == 78
    assert "[http] web_root" in finished.errors
    assert "Traceback" not in finished.errors


def test_our_pages_make_room_for_the_hosts_own(daemon: MakeDaemon, folder: Path) -> None:
    """The front end may use our pages' paths itself, except those that mails link to."""
    served = daemon({"http": {"web_root": str(folder)}}).start()
    for path in ("/", "/register", "/account", "/server"):
        assert served.get(path).body == PAGE
    for path in ("/set-password", "/forgot-password", "/application"):
        ours = served.get(path)
        assert (ours.status, b"a trap" in ours.body) == (200, False)
        assert "Content-Security-Policy" in ours.headers
        assert 'href="register"' not in ours.text
        assert "data-front-end" in ours.text  # its script leads to the front end's home page
