"""Learning curves as inline SVG, and their key."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence

from bebold import curves
from bebold.experiments.published import published_return
from bebold.groups import Groups
from bebold.page.elements import Html, element, join
from bebold.report import Result

WIDTH, HEIGHT = 4.4, 3.0
"""Inches of a panel at its natural size; the page stretches it to its column."""
LINE = 2.2
"""Width of a line in the key, as in the panels."""
DASHES = (3.7, 1.6)
"""What matplotlib draws for `--`, in line widths."""


def learning_curves(groups: Groups) -> Html:
    """A panel a task below one key."""
    look = curves.styles(name for _, name in groups)
    tasks = dict.fromkeys(task for task, _ in groups)
    entries = [_entry(name, look[name]) for name in dict.fromkeys(name for _, name in groups)]
    if any(published_return(task) is not None for task in tasks):
        entries.append(_entry("BeBold in the paper", curves.PAPER, width=1))
    panels = []
    for number, task in enumerate(tasks):
        of_task = {name: runs for (of, name), runs in groups.items() if of == task}
        about = f"Return over environment steps on {task}: {', '.join(of_task)}"
        panels.append(
            element(
                "figure",
                element("figcaption", task),
                element("div", _svg(task, of_task, look, number), role="img", aria_label=about),
            )
        )
    caption = curves.caption(groups)
    return join(
        *([element("p", f"{caption[0].upper()}{caption[1:]}.")] if caption else []),
        element("ul", *entries, class_="key"),
        element("div", *panels, class_="panels"),
    )


def _svg(task: str, groups: Mapping[str, Sequence[Result]], look: Mapping[str, curves.Style], number: int) -> Html:
    """The panel of one task. No text of a stranger's gets into it: names stand in the key, the task above it."""
    import matplotlib

    # A salt fixes the names of what is referred to, and its number keeps them apart from those of other panels.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"bebold {number}"}):
        figure = curves.new_figure(WIDTH, HEIGHT)
        panel = figure.subplots()
        curves.draw_task(panel, task, groups, look)
        panel.set_title("")
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # Groups are named alike in every panel, and names may stand only once in a page; none is referred to.
    return Html(re.sub(r"<g id=\"[^\"]*\"", "<g", svg).strip())


def _entry(name: str, style: curves.Style, width: float = LINE) -> Html:
    line = style["linestyle"]
    pattern = () if line == "-" else DASHES if line == "--" else line[1]
    dashes = " ".join(f"{length * width:g}" for length in pattern) or None
    sample = element(
        "svg",
        element("line", x1=0, y1=6, x2=40, y2=6, stroke=style["color"], stroke_width=width, stroke_dasharray=dashes),
        width=40,
        height=12,
        viewBox="0 0 40 12",
        aria_hidden="true",
    )
    return element("li", sample, " ", name)
