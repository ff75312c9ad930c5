"""Refusals of `companion install` and `uninstall`."""


class InstallProblem(Exception):
    """The command cannot go on, and has written and removed nothing; `str()` says what to do.

    `status` is the exit status: 1, or 2 for an option that is missing or wrong.
    """

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status
