"""The operators in a stack's ops.json beside Olivia, and how they are added and removed."""

from tests.support.command_line import companion
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Stack


class Operators:
    """The operators of one stack. Every change replaces ops.json, as the game does."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._levels = {OPERATOR: 4}

    def appoint(self, person: Person, level: int = 4) -> None:
        """Add the person at this level."""
        self._levels[person.name] = level
        self._write()

    def dismiss(self, person: Person) -> None:
        """Remove the person."""
        del self._levels[person.name]
        self._write()

    def new(self, name: str = "oscar", level: int = 4) -> Person:
        """Return a new person who registered, was approved and then appointed."""
        person = self._stack.approved(name)
        self.appoint(person, level)
        return person

    def _write(self) -> None:
        self._stack.game.write_operators(*self._levels, levels=self._levels)


def create_olivia(stack: Stack) -> None:
    """Create the operator where there is no AuthMe to adopt her from: on the command line, as a host does."""
    given = ("users", "create", OPERATOR, "--password-stdin")
    created = companion(*given, config=stack.daemon.config_file, typed=f"{OPERATORS_PASSWORD}\n")
    assert created.status == 0, created
