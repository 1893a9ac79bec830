"""Pages as a browser takes them apart."""

from html.parser import HTMLParser

from tests.doubles.site import Site


class Seen(HTMLParser):
    """A page as a browser takes it apart: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.parts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        self._part(tag)

    def _part(self, tag: str) -> None:
        if tag in {"p", "li", "div", "td", "th", "dt", "dd"}:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def links(self) -> list[str]:
        return [attributes["href"] for attributes in self.all("a")]


async def read(site: Site, path: str) -> Seen:
    """The page at a path."""
    answer = await site.get(path)
    assert answer.status == 200, answer.text
    return Seen(answer.text)
