"""Pages of ours, beside the API."""

PAGES: list[tuple[str, type]] = []
