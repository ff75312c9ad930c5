"""What the routes of chat links carry."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.messages import Output, Password, Reply, Request, Username

LinkToken = Annotated[
    str,
    Meta(
        description="Claims the chat link that was begun with it.",
        examples=["0pJ7Vd0cVbq8yR3v0cY2mB5kT1nX4wZ6aE9sG7hL2uQ"],
    ),
]
IsLinked = Annotated[bool, Meta(description="Whether a chat account is linked.", examples=[True])]


class BeginChatLinkQuery(Request, frozen=True, kw_only=True):
    """Whose link it is to be. Only with that user's own access token does it make a difference."""

    username: Username | None = None


class BeginChatLinkReply(Reply, frozen=True, kw_only=True):
    """Where to send the player, and what claims the link that comes of it; the browser has it as a cookie, too."""

    auth_url: Annotated[
        str, Meta(description="A page of the chat platform.", examples=["https://discord.com/oauth2/authorize?…"])
    ]
    link_token: LinkToken


class ChatCallbackQuery(Request, frozen=True, kw_only=True):
    """What the chat platform sends the player back with (RFC 6749)."""

    state: Annotated[str, Meta(description="As it was in `authUrl`.")] | None = None
    code: Annotated[str, Meta(description="What the platform vouches with.")] | None = None
    error: Annotated[str, Meta(description="Why there is no code.", examples=["access_denied"])] | None = None


class ChatAccountFields(Output, frozen=True, kw_only=True):
    """An account on the chat platform, as it was when it was linked."""

    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])]
    discriminator: Annotated[str, Meta(description="`0` where the platform has none.", examples=["0"])]
    avatar: Annotated[str, Meta(description="As the platform tells it: on Discord a hash.")] | None
    global_name: Annotated[str, Meta(examples=["Alice"])] | None


class ChatCallbackReply(Reply, frozen=True, kw_only=True):
    """The proven account; `claimed` false: it waits for a registration or a login that shows the link token."""

    linked: IsLinked = True
    claimed: Annotated[bool, Meta(examples=[False])]
    user: ChatAccountFields


class ChatStatusQuery(Request, frozen=True, kw_only=True):
    """Whose chat account is asked for."""

    username: Username


class ChatStatusReply(Reply, frozen=True, kw_only=True):
    """`user` is there for the owner, for admins, and for whoever has the link token."""

    linked: IsLinked
    user: ChatAccountFields | UnsetType = UNSET


class UnlinkChatRequest(Request, frozen=True, kw_only=True):
    """With the user's or an admin's access token the name is enough; else one of the others proves the right."""

    username: Username
    password: Password | None = None
    totp: Annotated[str, Meta(description="With the password, for a player with a second factor.")] | None = None
    code: Annotated[str, Meta(description="Mailed with the purpose `unlink`.", examples=["123456"])] | None = None
    link_token: LinkToken | None = None


class ChatClaimFields(Output, frozen=True, kw_only=True):
    """What became of the link token that a login showed; `code` and `message` say why it could not be claimed."""

    linked: IsLinked
    user: ChatAccountFields | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["invalid_link_token"])] | UnsetType = UNSET
    message: Annotated[str, Meta(examples=["This chat link was already used or is too old."])] | UnsetType = UNSET
