"""Status routes that game proxies ask at every join. They take any 200 for an answer, and remember it."""

from __future__ import annotations

from typing import Final

from regsvc.api.endpoint import ACCESS_TOKEN, endpoint
from regsvc.api.handlers.registration import ReviewStatusHandler, StatusHandler, UserStatusHandler
from regsvc.api.legacy.types import WhitelistReply
from regsvc.api.types.registration import StatusQuery
from regsvc.core import errors
from regsvc.core.errors import Category, Refusal

NOT_REGISTERED: Final = "not_registered"


class TrueLimits:
    """Mixin for handlers whose limits keep their status, 429."""

    @classmethod
    def sends_as_200(cls, refusal: type[Refusal]) -> bool:
        return refusal.is_business and refusal.category is not Category.LIMITED


class ProxyUserStatusHandler(TrueLimits, UserStatusHandler):
    """`UserStatusHandler` with true limits."""


class ProxyReviewStatusHandler(TrueLimits, ReviewStatusHandler):
    """`ReviewStatusHandler` with true limits."""


class WhitelistHandler(TrueLimits, StatusHandler):
    @endpoint(errors.RateLimited, credentials=(ACCESS_TOKEN,))
    async def get(self, query: StatusQuery) -> WhitelistReply:
        """Show whether a name is registered, and its status, for proxies older than `/api/user/status`."""
        found = await self.find_status(query.username)
        if found is None:
            return WhitelistReply(found=False, status=NOT_REGISTERED)
        return WhitelistReply(found=True, username=found.username, status=found.status)
