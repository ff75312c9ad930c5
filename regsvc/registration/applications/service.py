"""Operations that the token of an application allows."""

from dataclasses import dataclass

from regsvc.registration.applications.address import AddressCorrection, AnswerChanges
from regsvc.registration.applications.status import Applications
from regsvc.registration.applications.streams import ApplicationStreams


@dataclass(frozen=True)
class ApplicationService:
    """The status of an application, its stream, and what the applicant may change."""

    statuses: Applications
    streams: ApplicationStreams
    answers: AnswerChanges
    address: AddressCorrection
