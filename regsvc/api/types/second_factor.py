"""Types of the routes for a user's second factor."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from regsvc.api.types.messages import Password, Reply, Request
from regsvc.api.types.users import Totp

RecoveryCodeList = Annotated[
    list[str],
    Meta(description="Each stands in for a code once. They are in this reply only.", examples=[["0417 9920 3186"]]),
]
IsInGame = Annotated[bool, Meta(description="Whether AuthMe asks for the same codes in the game.", examples=[True])]


class SecondFactorReply(Reply, frozen=True, kw_only=True):
    """The second factor of the user. `required`: without it, the user cannot log in as an admin."""

    enabled: Annotated[bool, Meta(description="Whether a login needs a code.", examples=[True])]
    in_game: Annotated[bool, Meta(description="Whether AuthMe asks for one in the game.", examples=[True])]
    required: bool
    recovery_codes_left: Annotated[int, Meta(ge=0, examples=[10])]


class BeginSecondFactorRequest(Request, frozen=True, kw_only=True):
    current_password: Password


class BeginSecondFactorReply(Reply, frozen=True, kw_only=True):
    """A new secret for an authenticator app, as text and as a QR code. It counts once a code confirms it."""

    secret: Annotated[str, Meta(description="In Base32.", examples=["JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"])]
    uri: Annotated[str, Meta(examples=["otpauth://totp/Server:Alice?secret=JBSWY3DP&issuer=Server"])]
    image: Annotated[str, Meta(description="The QR code.", examples=["data:image/png;base64,…"])]


class ConfirmSecondFactorRequest(Request, frozen=True, kw_only=True):
    """The password once more, and a code of the app."""

    current_password: Password
    totp: Annotated[str, Meta(examples=["123456"])]


class ConfirmSecondFactorReply(Reply, frozen=True, kw_only=True):
    recovery_codes: RecoveryCodeList
    in_game: IsInGame


class SecondFactorRequest(Request, frozen=True, kw_only=True):
    """The current password, and a code of the app or a recovery code."""

    current_password: Password
    totp: Totp | None = None


class RecoveryCodesReply(Reply, frozen=True, kw_only=True):
    recovery_codes: RecoveryCodeList


class SwitchOffSecondFactorReply(Reply, frozen=True, kw_only=True):
    """`inGame`: the player has set up another one with AuthMe, which logins need from now on."""

    in_game: bool
