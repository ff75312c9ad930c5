"""`companion docs`: what is shipped, without the repository."""

from regsvc.cli.shipped_files import list_shipped, read_shipped
from tests.support.command_line import companion


def test_the_documentation_is_there_without_the_repository() -> None:
    told = companion("docs")
    assert told.status == 0
    assert [line.split()[0] for line in told.output.splitlines()] == list_shipped()
    assert "Upgrade the companion" in told.output
    assert companion("docs", "upgrade").output == read_shipped("docs/upgrade.md")
    assert companion("docs", "conf/companion.toml").output == read_shipped("conf/companion.toml")
    unknown = companion("docs", "setup.py")
    assert (unknown.status, unknown.output) == (2, "")
    assert "`companion docs` lists" in unknown.errors
