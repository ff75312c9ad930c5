"""The registration and administration service."""

__version__ = "0.1.0"
