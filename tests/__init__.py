"""Tests. They make certificates, for which the product has no use."""

import cryptography  # noqa: F401 - before the product keeps others from importing it
