"""Routes: an async function with a typed request in and a typed reply out, its path, and the access that it requires.

    ROUTES = Routes()

    @ROUTES.add("POST", "/api/verify/send", PUBLIC, InvalidEmail, RateLimited)
    async def send_code(call: ApiHandler, request: SendCodeRequest) -> SendCodeReply:
        \"\"\"Mail a verification code.\"\"\"
        sent = await call.services.verification.send_code(request.email, call.caller)
        return SendCodeReply(message=call.message("code_sent"), remaining_seconds=sent.remaining_seconds)

The annotations are the contract: the request is read from the query of a GET and from the body of a POST, the reply is
sent as it is typed, and the docstring becomes the operation's summary and description in the OpenAPI document.
`ApiHandler` has refused malformed requests and those without the required access before the function is called.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regsvc.api.messages import Reply, Request
from regsvc.core.errors import Category, Refusal
from regsvc.core.rights import Permission

ACCESS_TOKEN: Final = "accessToken"  # noqa: S105 - a name
LINK_TOKEN: Final = "linkToken"  # noqa: S105 - a name
LINK_COOKIE: Final = "linkCookie"
ADDRESS_PROOF: Final = "addressProof"
APPLICATION_TOKEN: Final = "applicationToken"  # noqa: S105 - a name
"""Credentials, by the names of their security schemes in the OpenAPI document."""

SMALL_BODY: Final = 8 * 1024
"""Largest body in bytes where a few short fields are sent; elsewhere `http.max_body` alone applies."""

Answer = Callable[..., Awaitable[Reply | None]]
AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


class Access(Enum):
    """The access a route requires."""

    PUBLIC = "public"
    PUBLIC_WITH_ANY_TOKEN = "public, and an invalid token counts as none"  # noqa: S105 - not a token
    PROBE = "public, and tokens are not looked at"
    USER = "user"
    ADMIN = "a member of the team"


PUBLIC, USER, ADMIN = Access.PUBLIC, Access.USER, Access.ADMIN


@dataclass(frozen=True)
class Route:
    """One method of one path, and the function that answers it; GET implies HEAD.

    `request_type` is None for a function that reads neither body nor query. `reply_types` is empty for one that writes
    its response itself (as `media_type`). `refusals` are the function's own; those of every route come on top.
    `redirects` says when it answers with a redirect (303); empty: never. `credentials` are the optional ones a public
    route accepts, by the names of their security schemes.
    """

    method: Literal["GET", "POST"]
    path: str
    access: Access
    answer: Answer
    request_type: type[Request] | None
    reply_types: tuple[type[Reply], ...]
    refusals: tuple[type[Refusal], ...]
    status: int = 200
    media_type: str = "application/json"
    redirects: str = ""
    credentials: tuple[str, ...] = ()
    has_large_body: bool = False
    permission: Permission | None = None
    """What the caller must be permitted, where the access is ADMIN; None: anything at all."""
    is_activity: bool = True
    """Whether a request keeps an admin's session from becoming idle."""
    keeps_429: bool = False
    """Whether its limits have their true status under `http.legacy_status`, too."""
    is_deprecated: bool = False
    made_of: Callable[[Any], tuple[object, ...]] | None = None
    """Returns all that the reply is made of, given the services: while that is equal, the last reply is sent again."""
    write_refusal: Callable[[Any, Refusal], bool] | None = None
    """Writes refusals in the route's own way, and returns False for those to be written as JSON."""

    def sends_as_200(self, refusal: type[Refusal]) -> bool:
        """Return whether refusals of this kind have status 200 under `http.legacy_status`."""
        return refusal.is_business and not (self.keeps_429 and refusal.category is Category.LIMITED)


class Routes(list[Route]):
    """The routes of a module, in the order of its functions."""

    def add(
        self,
        method: Literal["GET", "POST"],
        path: str,
        access: Access | Permission,
        *refusals: type[Refusal],
        **details: Any,
    ) -> Callable[[AnyAnswer], AnyAnswer]:
        """Enter a function that takes the call and a request type (or only the call) and returns a reply type.

        `access` may be a permission, which members of the team have or lack.

        A function that returns None has written its response itself, for example a redirect or a stream. `details` are
        further fields of its `Route`. Raises TypeError for a function without request and reply types.
        """

        def enter(answer: AnyAnswer) -> AnyAnswer:
            request_type, reply_types = _read_types(answer)
            if isinstance(access, Permission):
                required: dict[str, Any] = {"access": Access.ADMIN, "permission": access}
            else:
                required = {"access": access}
            self.append(
                Route(
                    method,
                    path,
                    answer=answer,
                    request_type=request_type,
                    reply_types=reply_types,
                    refusals=refusals,
                    **required,
                    **details,
                )
            )
            return answer

        return enter


def _read_types(answer: Answer) -> tuple[type[Request] | None, tuple[type[Reply], ...]]:
    """Return the request type and the reply types in the annotations of a function."""
    hints: dict[str, Any] = get_type_hints(answer)
    returned = hints.pop("return", inspect.Signature.empty)
    _call, *request_types = hints.values()
    reply_types = tuple(kind for kind in _alternatives(returned) if kind is not types.NoneType)
    if len(request_types) > 1 or not all(issubclass(kind, Reply) for kind in reply_types):
        raise TypeError(f"{answer.__qualname__} has no request and reply types")
    if not all(issubclass(kind, Request) for kind in request_types):
        raise TypeError(f"{answer.__qualname__} takes no request type")
    return next(iter(request_types), None), reply_types


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)
