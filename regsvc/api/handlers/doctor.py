"""What the doctor says of this installation, for operators."""

from __future__ import annotations

from typing import cast

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.doctor import CheckupReply, DoctorQuery, FindingFields, Verdict
from regsvc.api.types.messages import milliseconds_of


class DoctorHandler(ApiHandler):
    @endpoint()
    async def get(self, query: DoctorQuery) -> CheckupReply:
        """What is wrong or risky about this installation, and what to change where: as `companion doctor` says it.

        Of the config it tells as it is in force, whatever was written to the file since.
        """
        examined = await self.services.doctor.get(force=query.fresh)
        checkup = examined.checkup
        return CheckupReply(
            verdict=cast(Verdict, checkup.verdict),
            findings=[to_reply(FindingFields, finding) for finding in checkup.findings],
            not_examined=list(checkup.not_examined),
            checked_at=milliseconds_of(examined.at),
        )
