"""Routes: an async function with a typed request in and a typed reply out, its path, and the access that it requires.

    ROUTES = Routes()

    @ROUTES.add("POST", "/api/verify/send", PUBLIC, InvalidEmail, RateLimited)
    async def send_code(call: Call, verification: EmailVerification, *, email: Email) -> SendCodeReply:
        \"\"\"Mail a verification code.\"\"\"
        sent = await verification.send_code(email, call.caller)
        return SendCodeReply(message=call.message("code_sent"), remaining_seconds=sent.remaining_seconds)

The annotations are the contract: keyword-only parameters are the fields of the request, which is read from the query of
a GET and from the body of a POST, the reply is sent as it is typed, and the docstring becomes the operation's summary
and description in the OpenAPI document. A request of several functions, or of many fields, is a struct, which one
parameter takes as a whole; beside it, keyword-only ones are further fields. A reply of one field is returned as its
value, whose annotation names field and schema (`SentAs`). The other parameters are features, of which the application
has each once, by its class (`Features`); one that it does not have ends the start.
`Call` has refused malformed requests and those without the required access before the function is called.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from regsvc.core.errors import Category, Refusal
from regsvc.core.rights import Permission
from regsvc.core.shapes import Output
from regsvc.http.messages import Reply, Request, to_reply

ACCESS_TOKEN: Final = "accessToken"  # noqa: S105 - a name
LINK_TOKEN: Final = "linkToken"  # noqa: S105 - a name
LINK_COOKIE: Final = "linkCookie"
ADDRESS_PROOF: Final = "addressProof"
APPLICATION_TOKEN: Final = "applicationToken"  # noqa: S105 - a name
"""Credentials, by the names of their security schemes in the OpenAPI document."""

APPLICATION_TOKEN_HEADER: Final = "X-Application-Token"  # noqa: S105 - a name
LINK_COOKIE_NAME: Final = "companion_link"
LINK_TOKEN_HEADER: Final = "X-Link-Token"  # noqa: S105 - a name
PROOF_HEADER: Final = "X-Address-Proof"

SMALL_BODY: Final = 8 * 1024
"""Largest body in bytes where a few short fields are sent; elsewhere `http.max_body` alone applies."""

_SCHEMA: Final = re.compile(r"\n\n(\w+):")
"""Begins the paragraphs at the end of a docstring, which describe the schemas of request and reply."""

_LINE_END: Final = re.compile(r"(?<!\n)\n(?!\n)")

Answer = Callable[..., Awaitable[Any]]
AnyAnswer = TypeVar("AnyAnswer", bound=Answer)
T = TypeVar("T")


class MissingFeature(LookupError):
    """A feature that the application does not have; `str()` names it, and the path that needs it."""


class Features(dict[type, Any]):
    """The features of one process, each once, by its class."""

    @classmethod
    def of(cls, *features: object) -> Features:
        """Return these; raises ValueError for two of one class."""
        provided = cls((type(feature), feature) for feature in features)
        if len(provided) < len(features):
            raise ValueError("two features of one class")
        return provided

    def of_class(self, kind: type[T]) -> T:
        """Return the feature of this class; raises `MissingFeature`."""
        try:
            feature: T = self[kind]
        except KeyError:
            raise MissingFeature(f"the application has no {kind.__name__}") from None
        return feature


class SentAs(NamedTuple):
    """The field that a returned value is sent as, and the name of the reply's schema.

    `field` "": the fields of a returned record, as its annotation has them, are the reply's own.
    """

    field: str
    schema: str


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

    `needs` are the features that the function takes, each after the name of its parameter. `request_type` is None for
    one that reads neither body nor query; `request_name` is the parameter that takes the whole request, if there is
    one, and `request_fields` are taken singly. `reply_types` is empty for one that writes its response itself (as
    `media_type`), and `reply_field` for one that returns whole replies or records. `refusals` are the function's own;
    those of every route come on top. `redirects` says when it answers with a redirect (303); empty: never.
    `credentials` are the optional ones a public route accepts, by the names of their security schemes.
    """

    method: Literal["GET", "POST"]
    path: str
    access: Access
    answer: Answer
    doc: str
    needs: tuple[tuple[str, type], ...]
    request_type: type[Request] | None
    request_name: str
    request_fields: tuple[str, ...]
    reply_types: tuple[type[Reply], ...]
    reply_field: str
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
    has_status_limit: bool = False
    """Whether requests count towards `http.status_limit`, once they are well-formed and permitted."""
    keeps_429: bool = False
    """Whether game proxies ask it, which take any 200 for an answer: its limits have their true status under
    `http.legacy_status`, too, and a second slash before the path is accepted there."""
    is_deprecated: bool = False
    made_of: Callable[..., tuple[object, ...]] | None = None
    """Returns all that the reply is made of, given the features: while that is equal, the last reply is sent again."""
    write_refusal: Callable[[Any, Refusal], bool] | None = None
    """Writes refusals in the route's own way, and returns False for those to be written as JSON."""

    def with_features(self, features: Features) -> Route:
        """Return the route with the features that its functions take; raises `MissingFeature`."""
        try:
            taken: dict[str, object] = {name: features.of_class(kind) for name, kind in self.needs}
        except MissingFeature as missing:
            raise MissingFeature(f"{self.method} {self.path}: {missing}") from None
        made_of = None if self.made_of is None else partial(self.made_of, *taken.values())
        return replace(self, answer=partial(self.answer, **taken), needs=(), made_of=made_of)

    def arguments_of(self, request: Request) -> dict[str, object]:
        """Return what the function takes of a request, by the names of its parameters."""
        whole: dict[str, object] = {self.request_name: request} if self.request_name else {}
        return whole | {field: getattr(request, field) for field in self.request_fields}

    def reply_of(self, returned: Any) -> Reply | None:
        """Return the reply of what the function returned; None: it has written its response itself."""
        if self.reply_field:
            return self.reply_types[0](**{self.reply_field: returned})
        is_record = isinstance(returned, Output) and not isinstance(returned, Reply)
        reply: Reply | None = to_reply(self.reply_types[0], returned) if is_record else returned
        return reply

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
        """Enter a function that takes the call, features, and a request (or none), and returns a reply type.

        `access` may be a permission, which members of the team have or lack. Paragraphs at the end of the docstring
        may name the schema of a request made of parameters, and describe it and that of a returned value: "NoteRequest:
        A note about a user." Without one, the request's schema has the function's name.

        A function that returns None has written its response itself, for example a redirect or a stream. `details` are
        further fields of its `Route`. Raises TypeError for a function without request and reply types, and for one that
        describes a schema that it does not define.
        """

        def enter(answer: AnyAnswer) -> AnyAnswer:
            if isinstance(access, Permission):
                required: dict[str, Any] = {"access": Access.ADMIN, "permission": access}
            else:
                required = {"access": access}
            self.append(
                Route(method, path, answer=answer, refusals=refusals, **_read_signature(answer), **required, **details)
            )
            return answer

        return enter


@cache  # a function may answer for several paths
def _read_signature(answer: Answer) -> dict[str, Any]:
    """Return the fields of a route that are in the signature and the docstring of its function."""
    # the call itself is not imported where routes are: commands, which have none, would load the web framework
    hints: dict[str, Any] = get_type_hints(answer, localns={"Call": object}, include_extras=True)
    doc, *schemas = _SCHEMA.split(inspect.getdoc(answer) or "")
    about = {name: _LINE_END.sub(" ", text).strip() for name, text in zip(schemas[::2], schemas[1::2], strict=True)}
    _call, *parameters = inspect.signature(answer).parameters.values()
    fields = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    taken = {parameter.name: hints[parameter.name] for parameter in parameters if parameter not in fields}
    if not all(isinstance(kind, type) for kind in taken.values()):
        raise TypeError(f"{answer.__qualname__} takes what is no class")
    requests = {name: kind for name, kind in taken.items() if issubclass(kind, Request)}
    reply_types, reply_field = _read_replies(hints.get("return"), about)
    if len(requests) > 1 or not all(isinstance(kind, type) and issubclass(kind, Reply) for kind in reply_types):
        raise TypeError(f"{answer.__qualname__} has no request and reply types")
    request_name, request_type = next(iter(requests.items()), ("", Request if fields else None))
    if request_type is not None and (fields or request_type is Request):
        usual = answer.__name__.title().replace("_", "") + "Request"
        name = next((name for name in about if name.endswith(("Request", "Query"))), usual)
        defaults = [msgspec.NODEFAULT if field.default is field.empty else field.default for field in fields]
        typed = [(field.name, hints[field.name], default) for field, default in zip(fields, defaults, strict=True)]
        request_type = _define(name, about, request_type, typed)
    if about:
        raise TypeError(f"{answer.__qualname__} describes {', '.join(about)}, which it does not define")
    return {
        "doc": doc,
        "needs": tuple((name, kind) for name, kind in taken.items() if name not in requests),
        "request_type": request_type,
        "request_name": request_name,
        "request_fields": tuple(field.name for field in fields),
        "reply_types": reply_types,
        "reply_field": reply_field,
    }


def _read_replies(returned: Any, about: dict[str, str]) -> tuple[tuple[type[Reply], ...], str]:
    """Return the replies of a function, and the field of the one that it returns as a value."""
    kind, *notes = get_args(returned) or (None,)
    if notes and isinstance(sent_as := notes.pop(), SentAs):
        fields: list[tuple[Any, ...]] = [(sent_as.field, Annotated[(kind, *notes)] if notes else kind)]
        if not sent_as.field:
            fields = [(field.name, field.type, field.default) for field in msgspec.structs.fields(kind)]
        return (_define(sent_as.schema, about, Reply, fields),), sent_as.field
    kinds = get_args(returned) if get_origin(returned) in (Union, types.UnionType) else (returned,)
    return tuple(kind for kind in kinds if kind is not types.NoneType), ""


def _define(name: str, about: dict[str, str], base: type[T], fields: Iterable[tuple[Any, ...]]) -> type[T]:
    """Return the struct with these fields after those of its base; its description is taken out of `about`."""
    doc = {"__doc__": about.pop(name, None) or None}
    defined: Any = msgspec.defstruct(name, fields, bases=(base,), namespace=doc, frozen=True, kw_only=True)
    return defined  # type: ignore[no-any-return]
