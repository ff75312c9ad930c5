"""The digest for admins, from a running daemon and from the command line."""

import pytest

from tests.conftest import MakeDaemon
from tests.support.authme.authme_like import AuthMeLike
from tests.support.command_line import Finished, companion
from tests.support.peers.smtp import MailServer

pytestmark = pytest.mark.one_database("sqlite")

ADMIN = "olivia@example.org"
WAITS_FOR_REVIEW = {"existing_players": "pending"}


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_the_command_tells_once_who_waits(daemon: MakeDaemon, authme: AuthMeLike, smtp: MailServer) -> None:
    place = daemon({"sync": WAITS_FOR_REVIEW, "mail": {"admins": [ADMIN]}})
    authme.register("Alice", "alices-secret")
    assert companion("migrate", config=place.config_file).status == 0
    assert companion("sync", config=place.config_file).status == 0
    assert companion("digest", config=place.config_file) == Finished(0, "mails to admins: 1\n", "")
    assert companion("digest", config=place.config_file) == Finished(0, "mails to admins: 0\n", "")
    place.start()
    assert "Alice · " in smtp.wait_for(ADMIN).text


def test_a_daemon_tells_by_itself_and_again_when_there_is_news(
    daemon: MakeDaemon, authme: AuthMeLike, smtp: MailServer
) -> None:
    often = {"admins": [ADMIN], "admin_digest": "1 second"}
    authme.register("Alice", "alices-secret")
    daemon({"sync": {**WAITS_FOR_REVIEW, "every": "1 second"}, "mail": often}).start()
    assert smtp.wait_for(ADMIN).subject.startswith("1 waiting")
    authme.register("Bob", "bobs-secret")
    assert smtp.wait_for(ADMIN, 2).subject.startswith("2 waiting")
