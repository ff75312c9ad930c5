"""Lookup of a front end's files by address, and files that no address may reach."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from regsvc.web.host_front_end import FoundFile, find_file

PAGE = "<!doctype html><title>Oakvale</title>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "front-end"
    for name, content in {
        "index.html": PAGE,
        "about.html": "<p>About",
        "favicon.ico": "icon",
        "assets/index-BkYd3kQ2.js": "script",
        "assets/logo.svg": "<svg/>",
        "naïve café.txt": "words",
        "no-ending": "bytes",
        ".env": "SECRET=hunter2",
        ".git/config": "hunter2",
        "assets/.htpasswd": "hunter2",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    (tmp_path / "secret.txt").write_text("hunter2", encoding="utf-8")
    return root


def content_of(folder: Path, path: str) -> str | None:
    found = find_file(folder, path)
    if found is None:
        return None
    with closing(found):
        return found.read(0, found.size).decode()


def found_in(folder: Path, path: str) -> FoundFile:
    found = find_file(folder, path)
    assert found is not None
    found.close()
    return found


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/", PAGE),
        ("/index.html", PAGE),
        ("/about.html", "<p>About"),
        ("/assets/logo.svg", "<svg/>"),
        ("/%61bout.html", "<p>About"),
        ("/assets%2Flogo.svg", "<svg/>"),
        ("/na%C3%AFve%20caf%C3%A9.txt", "words"),
        ("/no-ending", "bytes"),
        ("/about.html/", "<p>About"),
    ],
)
def test_a_file_is_found_by_its_name(folder: Path, path: str, content: str) -> None:
    assert content_of(folder, path) == content


@pytest.mark.parametrize(
    "path",
    ["/login", "/users/Alice", "/users/alice.smith", "/assets", "/assets/", "/a/b/c/", "/gone.html", "/" + "x" * 300],
)
def test_an_address_that_names_no_file_is_the_front_ends_own(folder: Path, path: str) -> None:
    assert content_of(folder, path) == PAGE


@pytest.mark.parametrize("path", ["/assets/index-OldHash1.js", "/gone.css", "/gone.PNG", "/x/y.woff2", "/favicon.gif"])
def test_a_missing_script_is_missing(folder: Path, path: str) -> None:
    assert content_of(folder, path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%2f..%2f..%2fetc/passwd",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/%252e%252e/secret.txt/../../secret.txt",
        "//etc/passwd",
        "/assets//logo.svg",
        "/./index.html",
        "/index.html%00.js",
        "/%00",
        "/a%0ab",
        "/%ff%fe",
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/assets/.htpasswd",
        "/.missing",
        "",
        "/.",
        "/..",
        "/api",
        "/api/config",
        "/%61pi/config",
        "/API/x",
    ],
)
def test_nothing_else_is_sent(folder: Path, path: str) -> None:
    (folder / "api").mkdir()
    (folder / "api" / "config").write_text("not the API")
    assert content_of(folder, path) is None


def test_a_link_that_leads_out_is_not_followed(folder: Path) -> None:
    (folder / "out.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "everything").symlink_to("/")
    (folder / "passwords").symlink_to(".env")
    (folder / "loop").symlink_to("loop")
    for path in ("/out.txt", "/everything/etc/passwd", "/everything", "/passwords"):
        assert content_of(folder, path) is None, path
    assert content_of(folder, "/loop") == PAGE


def test_a_link_inside_is_followed(folder: Path) -> None:
    (folder / "latest.svg").symlink_to("assets/logo.svg")
    assert content_of(folder, "/latest.svg") == "<svg/>"


def test_the_folder_itself_may_be_a_link_that_moves_on(folder: Path, tmp_path: Path) -> None:
    """Hosts keep several versions side by side and switch a link."""
    current, newer = tmp_path / "current", tmp_path / "newer"
    newer.mkdir()
    (newer / "index.html").write_text("newer")
    current.symlink_to(folder)
    assert content_of(current, "/") == PAGE
    following = tmp_path / "following"
    following.symlink_to(newer)
    following.replace(current)
    assert content_of(current, "/") == "newer"


def test_an_index_that_leads_out_is_no_index(folder: Path) -> None:
    (folder / "index.html").unlink()
    assert content_of(folder, "/") is None
    assert content_of(folder, "/login") is None
    (folder / "index.html").symlink_to(folder.parent / "secret.txt")
    assert content_of(folder, "/") is None
    assert content_of(folder, "/login") is None


def test_what_is_no_file_does_not_keep_us_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert content_of(folder, "/pipe") == PAGE


def test_without_a_folder_there_is_nothing(tmp_path: Path) -> None:
    assert content_of(tmp_path / "gone", "/") is None


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("assets/index-BkYd3kQ2.js", "text/javascript; charset=utf-8"),
        ("assets/logo.svg", "image/svg+xml"),
        ("no-ending", "application/octet-stream"),
    ],
)
def test_the_name_tells_the_kind(folder: Path, name: str, media_type: str) -> None:
    assert found_in(folder, f"/{name}").media_type == media_type


@pytest.mark.parametrize(
    ("name", "is_immutable"),
    [
        ("assets/index-BkYd3kQ2.js", True),
        ("assets/style.D1a_-9xY.css", True),
        ("static/js/main.3f4a5b6c.js", True),
        ("static/js/main.3f4a5b6c.chunk.js.map", True),
        ("main-0a1b2c3d4e5f6a7b8c9d.js", True),
        ("js/index-D9qfS53w.js", True),
        ("css/index-DkQwXbTz.css", True),
        ("js/NotFound-CLMIHK72.js", True),
        ("js/app-settings.js", False),
        ("js/app-UserList.js", False),
        ("js/app-version2.js", False),
        ("index.html", False),
        ("jquery-minified.js", False),
        ("shot-20240101.png", False),
        ("my-holiday2024.jpg", False),
        ("deadbeef.js", False),
        ("assets/logo.svg", False),
    ],
)
def test_a_name_with_a_hash_never_changes_its_content(folder: Path, name: str, is_immutable: bool) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    assert found_in(folder, f"/{name}").is_immutable is is_immutable


def test_another_content_has_another_tag(folder: Path) -> None:
    before = found_in(folder, "/")
    assert found_in(folder, "/").etag == before.etag
    (folder / "index.html").write_text(PAGE + "!")
    assert found_in(folder, "/").etag != before.etag
