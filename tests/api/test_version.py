"""GET /api/version: what runs here, and whether there is something newer."""

from __future__ import annotations

from regsvc import __version__
from regsvc.config import Config
from tests.support.live_api import LiveApi, make_services


def test_it_tells_our_version() -> None:
    with LiveApi(make_services(Config())) as api:
        reply = api.request("GET", "/api/version")
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "currentVersion": __version__,
        "latestVersion": None,
        "updateAvailable": False,
        "releasesUrl": None,
        "checkedAt": None,
        "plugin": {"name": "AuthMe", "currentVersion": None, "latestVersion": None, "updateAvailable": False},
    }
