"""Login of front ends that know one login route and one token."""

from __future__ import annotations

from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.login import LOGIN_REFUSALS, LoginHandler
from regsvc.api.types.login import LoginReply, LoginRequest


class SingleLoginHandler(LoginHandler):
    @endpoint(*LOGIN_REFUSALS)
    async def post(self, request: LoginRequest) -> LoginReply:
        """Log in: an approved operator as an admin, all others as users. `isAdmin` says which."""
        return await self.log_in(request, None)
