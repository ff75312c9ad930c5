"""The last checkup of the doctor in this process, and the admin route that shows it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment
from regsvc.core.shared_lookup import CachedCall
from regsvc.doctor.finding import FindingFields
from regsvc.http.messages import Reply, to_reply
from regsvc.http.route import Routes

if TYPE_CHECKING:
    from regsvc.doctor.checkup import Checkup
    from regsvc.http.call import Call

ROUTES: Final = Routes()


class DoctorRuns(CachedCall[tuple["Checkup", datetime]]):
    """The last findings of the doctor in this process, and their time."""


Verdict = Literal["fine", "risky", "broken"]


class CheckupReply(Reply, frozen=True, kw_only=True):
    """The findings, broken ones first, and the checks that could not run, with the reason."""

    language: Annotated[str, Meta(description="The language of the sentences.", examples=["en"])]
    verdict: Annotated[Verdict, Meta(description="The worst severity of all findings.")]
    findings: list[FindingFields]
    not_examined: Annotated[list[str], Meta(examples=[[]])]
    checked_at: Moment


def _translate(checkup: Checkup, language: str) -> Checkup:
    from regsvc.doctor.checkup import in_language

    return in_language(checkup, language)


@ROUTES.add("GET", "/api/admin/doctor", Permission.SYSTEM_READ)
async def show_checkup(
    call: Call,
    doctor: DoctorRuns,
    *,
    fresh: Annotated[bool, Meta(description="Check again, even if the last check was less than a minute ago.")] = False,
) -> CheckupReply:
    """List what is broken or risky about this installation and what to change, like `companion doctor`.

    The config is checked as it is in effect, even if the file was changed since. The sentences are in the
    caller's language if the doctor speaks it (`language` of the reply), else in English.

    DoctorQuery: Query of the doctor's route: whether a recent result is good enough.
    """
    checkup, made_at = await doctor.get(force=fresh)
    checkup = await call.run(_translate, checkup, call.language)
    return to_reply(CheckupReply, checkup, checked_at=made_at)
