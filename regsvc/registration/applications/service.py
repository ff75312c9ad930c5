"""Operations that the token of an application allows."""

from dataclasses import dataclass

from regsvc.registration.applications.status import Applications
from regsvc.registration.applications.streams import ApplicationStreams


@dataclass(frozen=True)
class ApplicationService:
    """The status of an application, and its stream."""

    statuses: Applications
    streams: ApplicationStreams
