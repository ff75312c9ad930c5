"""Changes of the answers of applications that wait for review."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regsvc.core.caller import Caller
from regsvc.core.errors import NotEnabled, QuestionnaireFailed
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.registration.applications.pending import PendingApplications
from regsvc.registration.applications.status import Applications, ApplicationStatus
from regsvc.registration.questionnaire.questions import Answer
from regsvc.registration.questionnaire.service import Questionnaires, Submitter


@dataclass(frozen=True)
class AnswerChanges:
    """Replacement of answers by others that pass the questionnaire; of others the earlier ones stay."""

    pending: PendingApplications
    worker: Worker
    statuses: Applications
    questionnaires: Questionnaires
    audit: Audit
    wake: Callable[[], None]
    """Wakes the open streams."""

    async def change(self, token: str, answers: Mapping[str, Answer], caller: Caller) -> ApplicationStatus:
        """Replace the answers and return the application.

        Raises `ApplicationNotFound`, `WrongStatus`, `NotEnabled` where no questions were asked, and what a submission
        of answers raises. Failed answers start the same wait, of the proven address, and raise `QuestionnaireFailed`.
        """
        address = await self.worker.run(self._find_address, token)
        submitted = await self.questionnaires.submit(answers, Submitter(caller, address=address))
        if not submitted.is_passed:
            wait = round(submitted.wait.total_seconds())
            raise QuestionnaireFailed(submitted.score, submitted.pass_score, wait)
        await self.worker.run(self._replace, token, submitted.token, caller)
        self.wake()
        return await self.statuses.find(token)

    def _find_address(self, token: str) -> str | None:
        """Return the key of the address that the applicant has proven, or None."""
        with self.pending.locked(token) as user:
            if self.questionnaires.find_result_of(user.id) is None:
                raise NotEnabled
            return str(user.email_key) if user.is_email_verified else None

    def _replace(self, token: str, submitted: str, caller: Caller) -> None:
        with self.pending.locked(token) as user:
            self.questionnaires.replace_result_of(user.id, submitted)
            self.audit.record("user.answers_changed", user.username, user.username, ip=caller.address)
