"""Admin route with the doctor's findings."""

from __future__ import annotations

from typing import cast

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.doctor import CheckupReply, DoctorQuery, FindingFields, Verdict
from regsvc.api.types.messages import milliseconds_of
from regsvc.doctor.languages import in_language


class DoctorHandler(ApiHandler):
    @endpoint()
    async def get(self, query: DoctorQuery) -> CheckupReply:
        """List what is broken or risky about this installation and what to change, like `companion doctor`.

        The config is checked as it is in effect, even if the file was changed since. The sentences are in the
        caller's language if the doctor speaks it (`language` of the reply), else in English.
        """
        examined = await self.services.doctor.get(force=query.fresh)
        checkup = await self.run(in_language, examined.checkup, self.language)
        return CheckupReply(
            language=checkup.language,
            verdict=cast(Verdict, checkup.verdict),
            findings=[to_reply(FindingFields, finding) for finding in checkup.findings],
            not_examined=list(checkup.not_examined),
            checked_at=milliseconds_of(examined.at),
        )
