"""`Idempotency-Key`: what is sent again because its reply was lost is carried out once, and is answered as before."""

import asyncio
from typing import Any

import pytest

from regsvc.http import kept_replies
from regsvc.http.kept_replies import KeptReplies
from tests.support.daemon import Reply
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Stack, find_link_token
from tests.support.together import at_once

KEY = "0123456789-attempt"
OTHER_KEY = "9876543210-attempt"
INVITATION = {"uses": 1, "days": 7, "grants": []}


def invite(stack: Stack, token: str, key: str = KEY, **fields: object) -> Reply:
    headers = {"Idempotency-Key": key}
    return stack.post("/api/admin/invitation", INVITATION | fields, token=token, headers=headers)


def invitations(stack: Stack) -> int:
    return len(stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"])


def test_an_attempt_is_carried_out_once_however_often_it_is_sent(stack: Stack) -> None:
    olivia, before = stack.olivia(), invitations(stack)
    replies = at_once([lambda: invite(stack, olivia)] * 5)
    assert {(reply.status, reply.text) for reply in replies} == {(200, replies[0].text)}
    assert invite(stack, olivia, language="de").json == replies[0].json
    assert invitations(stack) == before + 1

    others = [invite(stack, olivia, key=OTHER_KEY), invite(stack, olivia, uses=2)]  # another attempt; asks for more
    others.append(invite(stack, stack.admin_token(OPERATOR, OPERATORS_PASSWORD)))  # another session
    assert len({reply.json["link"] for reply in [replies[0], *others]}) == 4
    assert invitations(stack) == before + 4


def test_only_asking_carries_nothing_out(stack: Stack) -> None:
    olivia, before = stack.olivia(), invitations(stack)
    headers = {"Idempotency-Key": "asked-0123456789", "X-Replay-Only": "1"}
    asked = stack.post("/api/admin/invitation", INVITATION, token=olivia, headers=headers)
    assert (asked.status, asked.text) == (204, "")
    made = invite(stack, olivia, key="asked-0123456789")
    assert stack.post("/api/admin/invitation", token=olivia, headers=headers).json == made.json
    assert stack.post("/api/admin/invitation", headers=headers).status == 204, "nobody else's key leads to it"
    assert invitations(stack) == before + 1


@pytest.mark.parametrize("key", ["", "short", "x" * 65, "with a space in it", "über-0123456789"])
def test_a_key_that_cannot_be_one_is_refused(stack: Stack, key: str) -> None:
    assert_refused(invite(stack, stack.olivia(), key=key), 400, "malformed_request")


def test_what_ended_the_session_or_used_up_the_token_is_answered_again(stack: Stack) -> None:
    bob = stack.approved("bob")
    session, headers = stack.user_token(bob), {"Idempotency-Key": KEY}
    change = {"currentPassword": bob.password, "newPassword": "bobs-next-secret"}
    first, again = (stack.post("/api/user/password", change, token=session, headers=headers) for _time in range(2))
    assert (first.status, again.json) == (200, first.json)
    other = stack.post("/api/user/password", change | {"newPassword": "another-1"}, token=session, headers=headers)
    assert_refused(other, 401, "unauthorized")

    stack.post("/api/password/forgot", {"email": bob.email})
    letter = stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "set-password#token=" in letter.text)
    reset = {"token": find_link_token(letter.text), "newPassword": "bobs-third-secret"}
    replies = [stack.post("/api/password/reset", reset, headers=headers) for _time in range(2)]
    assert [reply.status for reply in replies] == [200, 200]
    guessed = stack.post("/api/password/reset", reset | {"newPassword": "bobs-fourth-secret"}, headers=headers)
    assert_refused(guessed, 422, "invalid_token", field="token")  # and is not told that this one is set


def test_a_refusal_is_not_kept(stack: Stack) -> None:
    bob = stack.approved("bob")
    login, headers = {"username": bob.name, "password": bob.password}, {"Idempotency-Key": KEY}
    assert stack.post("/api/login", login | {"password": "wrong"}, headers=headers).status == 401
    assert stack.post("/api/login", login, headers=headers).status == 200


def test_the_replies_take_no_more_room_and_time_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptReplies()
    asked = kept.asked_by({"uses": 1, "captchaAnswer": "7"})
    assert asked == kept.asked_by({"uses": 1, "captchaAnswer": "8"}) != kept.asked_by({"uses": 2})

    async def story() -> None:
        async def known(number: int) -> bool:
            return await kept.find(name(number), asked) is not None

        def name(number: int) -> bytes:
            return kept.name_of(f"{number:016}", "/api/admin/invitation", ("", ""))

        body = b"x" * kept_replies.LARGEST_REPLY
        for number in range(100):
            with kept.record(name(number), asked) as attempt:
                attempt.keep(200, body + b"x" if number == 99 else body)
        assert [await known(number) for number in (0, 98, 99)] == [False, True, False]
        assert kept._size <= kept_replies.MOST_BYTES
        with pytest.raises(RuntimeError), kept.record(name(98), asked):
            raise RuntimeError
        assert not await known(98)
        assert await known(97)
        monkeypatch.setattr(kept_replies, "LIFETIME", 0)
        assert not await known(97)
        with kept.record(name(1), asked):
            pass
        assert kept._size == 0

    asyncio.run(story())


def test_after_a_restart_nothing_is_done_twice_either(stack: Stack) -> None:
    """Nothing is kept any more: what Olivia sends again is what she has made, and who was decided is so."""
    people = {name: stack.pending(name) for name in ("alice", "bob", "carol", "dan")}
    olivia = stack.olivia()

    def send(path: str, key: str = KEY, /, **fields: object) -> Reply:
        return stack.post(f"/api/admin/{path}", fields, token=olivia, headers={"Idempotency-Key": key})

    requests: list[tuple[str, dict[str, Any]]] = [
        ("invitation", {"uses": 3, "days": 1, "grants": ["no_review"]}),
        ("user/note", {"username": people["alice"].name, "text": "Knows Rick."}),
        ("user/ask", {"username": people["alice"].name, "question": "Which Bob?"}),
        ("user/approve", {"usernames": [people["bob"].name, people["carol"].name], "reason": "Welcome"}),
        ("user/ban", {"username": people["bob"].name, "reason": "Griefing", "expiresAt": 4_000_000_000_000}),
        ("user/delete", {"username": people["carol"].name}),
        ("user/reject", {"username": people["dan"].name, "reason": "reject.short_answers"}),
    ]
    first = {path: send(path, **fields) for path, fields in requests}
    assert {reply.status for reply in first.values()} == {200}
    reviews = [stack.audits(person) for person in people.values()]
    letters = [len(stack.smtp.letters_to(person.email)) for person in people.values()]
    stack.restart_with({})
    after_ban = {"user/approve"}  # Bob is banned and Carol deleted meanwhile
    for path, fields in requests:
        again = send(path, **fields)
        if path not in after_ban:
            assert again.json == first[path].json, path
    outcome = [
        (it["success"], it.get("code")) for it in send("user/approve", **dict(requests)["user/approve"]).json["results"]
    ]
    assert outcome == [(False, "wrong_status"), (False, "user_not_found")]
    assert [stack.audits(person) for person in people.values()] == reviews
    assert [len(stack.smtp.letters_to(person.email)) for person in people.values()] == letters
    # another reason is another decision, as is one without a key, and one of somebody else
    assert_refused(send("user/reject", username=people["dan"].name, reason="Spam"), 409, "wrong_status")
    assert_refused(stack.decide("reject", people["dan"], reason="reject.short_answers"), 409, "wrong_status")
    assert send("user/note", OTHER_KEY, username=people["alice"].name, text="Knows Bob.").status == 200
    assert (
        send("invitation", OTHER_KEY, **dict(requests)["invitation"]).json["link"] != first["invitation"].json["link"]
    )
