"""Base class of the errors that end a start."""


class StartupError(Exception):
    """Error that the host has to fix before a start can succeed; `str()` is a sentence."""
