"""GET /api/application/why: what keeps an applicant out of the game, opened by the application's token alone."""

from tests.support.refusals import assert_refused
from tests.support.stack import Stack

PATH = "/api/application/why"


def test_the_token_tells_what_the_applicant_waits_for(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    headers = {"X-Application-Token": stack.register(alice).json["applicationToken"]}
    reply = stack.get(PATH, {"language": "fr"}, headers=headers)
    assert (reply.status, reply.json["canJoin"]) == (200, False)
    assert reply.json["why"] == "Ta candidature attend l’équipe ; tu n’as rien à faire."
    stack.decides("approve", alice)
    assert stack.get(PATH, headers=headers).json["why"].startswith("The game server is not running")
    assert_refused(stack.get(PATH, headers={"X-Application-Token": "7.nonsense"}), 404, "application_not_found")
