"""GET /api/discord/callback: `/api/chat/callback` as older front ends call it."""

from tests.support.chat_stack import make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack


def test_an_application_that_was_registered_with_the_older_address(make_stack: MakeStack) -> None:
    with OAuthServer() as provider:
        address = "https://play.example.org/api/discord/callback"
        provider.platform.redirect_urls.add(address)
        old = make_chat_stack(make_stack, provider, chat={"redirect_url": address})
        alice = old.browser()
        alice.name = "discord"
        callback = alice.consent(alice.begin().auth_url)
        assert callback.startswith(address)
        assert alice.open_callback(callback).status == 200
        assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")
