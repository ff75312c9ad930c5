"""GET /api/downloads: the files a host offers."""

from types import MappingProxyType

from regsvc.config.sections import Config, Download
from tests.support.live_api import LiveApi, make_features
from tests.support.stack import MakeStack


def test_a_host_offers_files(make_stack: MakeStack) -> None:
    stack = make_stack(
        config={
            "downloads.client": {
                "name": "客户端",
                "description": "Everything in one",
                "version": "1.21.4",
                "size": "12 MB",
                "url": "https://files.example.org/client.zip",
                "icon": "/icons/client.png",
            },
            "downloads.pack": {"name": "Pack", "url": "/files/pack.zip"},
        }
    )
    reply = stack.get("/api/downloads")
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "resources": [
            {
                "id": "client",
                "name": "客户端",
                "description": "Everything in one",
                "version": "1.21.4",
                "size": "12 MB",
                "url": "https://files.example.org/client.zip",
                "icon": "/icons/client.png",
            },
            {
                "id": "pack",
                "name": "Pack",
                "description": "",
                "version": "",
                "size": "",
                "url": "/files/pack.zip",
                "icon": "",
            },
        ],
    }


def test_a_host_need_not_offer_any() -> None:
    with LiveApi(make_features(Config())) as api:
        assert api.request("GET", "/api/downloads").json == {"success": True, "resources": []}


def test_it_is_only_read() -> None:
    downloads = MappingProxyType({"client": Download(name="Client", url="/client.zip")})
    with LiveApi(make_features(Config(downloads=downloads))) as api:
        head = api.request("HEAD", "/api/downloads")
        assert (head.status, head.content) == (200, b"")
        assert api.request("POST", "/api/downloads").json["code"] == "method_not_allowed"
        assert api.request("GET", "/api/downloads", headers={"Authorization": "Bearer no"}).status == 401
