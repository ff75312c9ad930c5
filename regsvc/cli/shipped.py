"""`companion docs`: the documentation and the samples, as they are shipped with this version."""

import sys

from regsvc.cli.shipped_files import list_shipped, read_shipped


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
