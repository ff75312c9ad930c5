"""Webhook signatures: the symmetric scheme of Standard Webhooks (standardwebhooks.com), version 1.

The signature is the HMAC-SHA256 of `<id>.<timestamp>.<body>`, in base64. The timestamp is that of the attempt, in
seconds since 1970, so that a receiver can refuse a replayed request.
"""

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Final

_BASE64_PREFIX: Final = "whsec_"


def signing_key(secret: str) -> bytes:
    """Return the key for a secret as written in the config: base64 after `whsec_`, else the text itself.

    Raises ValueError if the text after `whsec_` is not base64.
    """
    if secret.startswith(_BASE64_PREFIX):
        return base64.b64decode(secret.removeprefix(_BASE64_PREFIX), validate=True)
    return secret.encode("utf-8")


def signed_headers(delivery: str, body: bytes, secret: str, moment: datetime) -> dict[str, str]:
    """Return the headers `webhook-id` and `webhook-timestamp`, and with a secret `webhook-signature`."""
    timestamp = str(int(moment.timestamp()))
    headers = {"webhook-id": delivery, "webhook-timestamp": timestamp}
    if secret:
        signed = b".".join((delivery.encode(), timestamp.encode(), body))
        digest = hmac.new(signing_key(secret), signed, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode('ascii')}"
    return headers
