"""Every code that the API returns has a text on the operators' page: none is shown as it is."""

from importlib.resources import files
from typing import get_args, get_type_hints

import pytest

from regsvc.accounts.access import MEANINGS
from regsvc.auth.entitlement import EndCause
from regsvc.core.i18n import load_translations
from regsvc.database.audit import ACTIONS
from regsvc.database.models import OPEN, PASSWORD, PROVISION, STATUSES
from regsvc.doctor.finding import Severity
from regsvc.notifications.mail.history import MailState
from regsvc.notifications.mail.renderer import list_template_files
from regsvc.runtime.join_facts import Verdict
from regsvc.sync.effects import Conflict
from regsvc.sync.report import HeldBack
from regsvc.users.gates import HELD_BACK, REFUSED, ListedState
from regsvc.users.user_query import PLUGIN_STATES

CONFLICT = get_type_hints(Conflict)
MAILS = {
    file.name for file in list_template_files(files("regsvc.notifications.mail") / "texts") if file.language == "en"
}
IN_THE_GAME = set(PLUGIN_STATES) - {"off"}  # which is shown as nothing
COUNTS = {"adopted", "provisioned", "updated", "locked", "restored", "removed"} | (
    set(HeldBack().counts()) - {"missing", "ended", "days"}
)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("group", "values"),
    {
        "action": {action.replace(".", "_") for action in ACTIONS},
        "status": set(STATUSES),
        "player": IN_THE_GAME,
        "why": set(get_args(Verdict)),
        "listed": set(get_args(ListedState)) - {"off"},
        "leaves": {"next_run", HELD_BACK, REFUSED},
        "mail": MAILS - {"mail_test"},  # which is sent past the outbox
        "fate": set(get_args(MailState)),
        "wish": {PROVISION, PASSWORD, OPEN},
        "field": set(get_args(CONFLICT["field"])),
        "kept": set(get_args(CONFLICT["kept"])),
        "count": COUNTS,
        "warning": set(MEANINGS),
        "cause": {"role_changed", "password_reset", "by_its_maker", *get_args(EndCause)},
        "doctor": set(Severity),
        "verdict": {"fine", *Severity},
        "origin": {"registered", "adopted", "created"},
        "audience": {"user", "admin"},
    }.items(),
)
def test_there_are_words_for_everything(language: str, group: str, values: set[str]) -> None:
    translations = load_translations()
    words = translations.section("page.common", language) | translations.section("page.admin", language)
    assert values
    assert not [value for value in values if f"{group}_{value}" not in words]
