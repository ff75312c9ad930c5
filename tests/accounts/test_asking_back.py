"""Asking back, on a clock that the test moves: who does not answer, what is mailed, and what stays when a user goes."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from regsvc.database.audit import Actor
from regsvc.database.models import AskedQuestion, Note, OutboxEntry, User
from regsvc.users.questions import list_questions
from tests.support.manual_clock import ManualClock
from tests.support.services import CALLER, PASSWORD, ServiceHarness

FOURTEEN_DAYS = timedelta(days=14)


def reject_unanswered(services: ServiceHarness) -> int:
    """Run the job of the daemon."""
    return services.app.worker.run_here(services.app.decisions.reject_unanswered, FOURTEEN_DAYS)


def render(services: ServiceHarness, template: str) -> dict[str, tuple[str, str]]:
    """Return subject and text of these mails, as they would be sent now, by recipient."""
    rendered = {}
    for mail in OutboxEntry.select().where(OutboxEntry.template == template):
        message: Any = services.app.mail_renderer.render(mail).message
        part = message.get_body(("plain",))
        rendered[str(mail.recipient)] = str(message["Subject"]), str(part.get_content())
    return rendered


@pytest.mark.every_database
def test_who_does_not_answer_is_rejected_and_may_apply_again_at_once(
    services: ServiceHarness, clock: ManualClock
) -> None:
    """Alice forgets it; Bob is asked once more; Carla answers in the last hour, and Dave was approved."""
    for name in ("Alice", "Bob", "Carla", "Dave"):
        services.register(name)
        services.ask(name)
    User.update(language="de").where(User.username == "Alice").execute()
    services.decide("approve", "Dave")
    clock.advance(days=13, hours=23)
    assert reject_unanswered(services) == 0
    services.answer("Carla")
    services.ask("Bob", "And who is Dave?")
    clock.advance(hours=1)

    assert [reject_unanswered(services), reject_unanswered(services)] == [1, 0]

    statuses = {user.username: user.status for user in User.select()}
    assert statuses == {"Alice": "rejected", "Bob": "pending", "Carla": "pending", "Dave": "approved"}
    alice = services.user("Alice")
    assert (alice.reason, alice.may_reapply, alice.asked_at) == ("question_unanswered", True, None)
    [entry] = services.audits("user.rejected")
    assert (entry.target, entry.operator) == ("Alice", alice.reviewed_by)
    assert services.details("user.rejected") == [
        {"statusBefore": "pending", "reason": "question_unanswered", "mayReapply": True}
    ]
    [(_subject, text)] = render(services, "rejected").values()
    assert "nicht rechtzeitig beantwortet" in text
    assert services.register("Alice") == "pending", "the name is free"
    assert services.user("Alice").asked_at is None
    clock.advance(days=14)
    assert reject_unanswered(services) == 1, "Bob"


def test_everyone_is_asked_in_their_own_language(services: ServiceHarness) -> None:
    """And who has no proven address is not mailed, as the warning says."""
    until = {"de": "18. Mai", "en": "18 May", "fr": "18 mai", "zh": "5月18日"}
    subjects = {
        "de": "Eine Frage zu deiner Bewerbung",
        "en": "A question about your application",
        "fr": "Une question sur ta candidature",
        "zh": "关于你加入",
    }
    for language in (*subjects, "none"):
        services.register(f"Alice_{language}")
    for language in subjects:
        User.update(language=language).where(User.username == f"Alice_{language}").execute()
        assert services.ask(f"Alice_{language}").warnings == ()
    User.update(email_key=None, is_email_verified=False).where(User.username == "Alice_none").execute()
    assert services.ask("Alice_none").warnings == ("not_mailed",)
    sent = render(services, "asked")
    assert sent.keys() == {f"alice_{language}@example.org" for language in subjects}
    for language, words in subjects.items():
        subject, text = sent[f"alice_{language}@example.org"]
        user = services.user(f"Alice_{language}")
        assert subject.startswith(words)
        assert "Which Bob?" in text
        assert until[language] in text
        assert f"/application#token={services.app.application_tokens.token_of(user)}" in text


def test_questions_stay_with_the_name_but_not_the_address_of_who_left(services: ServiceHarness) -> None:
    """As reviews and notes do."""
    for name in ("Alice", "Bob"):
        services.register(name)
        services.ask(name)
        services.answer(name)
        services.app.worker.run_here(services.app.notes.add, name, "Knows Bob.", Actor("Olivia"))
    services.decide("approve", "Alice")
    session = services.app.sessions.authenticate(services.login("Alice", PASSWORD).token)
    asyncio.run(services.app.self_deletion.delete(session, PASSWORD, None, CALLER))
    services.decide("delete", "Bob")
    kept = [(it.username_key, it.answer, it.email_key) for it in AskedQuestion.select().order_by(AskedQuestion.id)]
    assert kept == [("alice", "The builder.", None), ("bob", "The builder.", "bob@example.org")]
    assert {note.username_key: note.email_key for note in Note.select()} == {"alice": None, "bob": "bob@example.org"}
    services.register("Carla", email="bob@example.org")
    [asked] = list_questions(services.user("Carla"), 10)
    assert (asked.answer, asked.is_same_user) == ("The builder.", False)
    services.register("Dave", email="alice@example.org")
    assert list_questions(services.user("Dave"), 10) == []
    assert OutboxEntry.select().where(OutboxEntry.template == "account_deleted").count() == 1
