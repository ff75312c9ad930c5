"""Parser for the HTML of our pages."""

from html.parser import HTMLParser

from tests.support.live_api import Reply


class Page(HTMLParser):
    """A parsed page: `tags` with their attributes in order, and `texts` by tag."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, str] = {}
        self._tag = ""
        self.feed(reply.content.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._tag] = self.texts.get(self._tag, "") + data

    def all(self, wanted: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag == wanted]
