"""Files that every installation has beside the program: the sample config, units, samples, and documentation.

They are named by their path in the repository. In a clone they are read from there; a wheel has copies of them in
`regsvc/shipped`, which `setup.py` makes. It runs this module by itself, which therefore imports nothing of ours.
"""

import sys
from pathlib import Path
from typing import Final

SHIPPED: Final = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "conf/*.toml",
    "docs/*.md",
    "packaging/monitoring/*",
    "packaging/proxy/*",
    "systemd/*",
)
"""What is shipped, as patterns; folders below are not searched."""

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_COPIES: Final = Path(__file__).resolve().parents[1] / "shipped"


def list_shipped() -> list[str]:
    """Return the names of all shipped files."""
    root = _root()
    found = {path for pattern in SHIPPED for path in root.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(root).as_posix() for path in found)


def read_shipped(name: str) -> str:
    """Return the text of a shipped file, such as `conf/companion.toml`; raise FileNotFoundError for any other."""
    if name not in list_shipped():
        raise FileNotFoundError(f"{name} is not shipped with the companion")
    return (_root() / name).read_text(encoding="utf-8")


def _root() -> Path:
    return _COPIES if _COPIES.is_dir() else REPOSITORY


def print_shipped(name: str | None) -> int:
    """Print the list, or one file: by its name, or that of a page without `docs/` and `.md`. Return the exit status."""
    names = list_shipped()
    if name is None:
        width = max(map(len, names))
        for shipped in names:
            print(f"{shipped:{width}}  {_title(shipped)}".rstrip())
        return 0
    found = next((shipped for shipped in (name, f"docs/{name}.md", f"{name}.md") if shipped in names), None)
    if found is None:
        print(f"companion: there is no {name}; `companion docs` lists what there is", file=sys.stderr)
        return 2
    print(read_shipped(found), end="")
    return 0


def _title(name: str) -> str:
    """Return the heading of a page, or the first comment of a file."""
    first = read_shipped(name).partition("\n")[0]
    return first.lstrip("# ").partition(". ")[0].rstrip(".") if first.startswith("# ") else ""
