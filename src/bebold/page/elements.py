"""HTML that is escaped as it is built: a label may come from a stranger's run folder, and must stay text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

VOID = {"img", "input", "meta"}
"""Elements that have no content and no end."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that HTML does not allow."""


class Html(str):
    """Text that is HTML already; any other is escaped where it is put into an element."""


def element(tag: str, /, *content: str, **attributes: str | float | bool | None) -> Html:
    """`<tag attributes>content</tag>`.

    Parameters
    ----------
    content : text, which is escaped, or `Html`, which is not
    attributes : always escaped. An underscore at the end is dropped, others become hyphens; None and False leave the
        attribute out, and True has no value.
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        words.append(name if value is True else f'{name}="{escape(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Html(start if tag in VOID else f"{start}{join(*content)}</{tag}>")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> Html:
    """Cells of text; all but the first `words` columns hold numbers, which are set to the right."""

    def line(tag: str, cells: Sequence[str]) -> Html:
        numbers = (element(tag, cell, class_="number" if i >= words else None) for i, cell in enumerate(cells))
        return element("tr", *numbers)

    body = element("tbody", *(line("td", row) for row in rows))
    return element("div", element("table", element("thead", line("th", columns)), body), class_="wide")


def prose(text: str) -> Html:
    """A paragraph; what stands between backticks is code, as in Markdown."""
    parts = text.split("`")
    return element("p", *(element("code", part) if i % 2 else part for i, part in enumerate(parts)))


def join(*content: str) -> Html:
    """One after the other, text escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in content))


def escape(text: str) -> Html:
    """Text as HTML, fit for a quoted attribute too."""
    return Html(html.escape(CONTROL.sub("\ufffd", text), quote=True))
