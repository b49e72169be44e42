"""The page as a whole."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import bebold
from bebold import report, tables
from bebold.checkpoint import replacing
from bebold.experiments.published import in_paper_order
from bebold.groups import Groups, group, mixtures
from bebold.page.agents import agents
from bebold.page.elements import Html, element, join, prose, table
from bebold.page.figures import learning_curves
from bebold.page.heatmaps import heatmaps
from bebold.report import Result
from bebold.settings import read_about

FOLDER = Path(__file__).resolve().parent
NO_AGENTS = (
    "No agent is shown: there are no weights. Compact records keep none; give the run folders that `bebold train` made."
)


def write(results: Sequence[Result], path: Path, *, show_agents: bool = True) -> None:
    """Write the page. The same runs give the same bytes on one machine.

    Parameters
    ----------
    show_agents : play the best agent of each task, which takes seconds each

    Raises
    ------
    RunError : `path` cannot be written
    """
    text = page(results, show_agents=show_agents)
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))


def page(results: Sequence[Result], *, show_agents: bool = True) -> Html:
    """The page as text."""
    groups = group(results)
    sections = [
        ("Learning curves", learning_curves(groups)),
        ("Tables", join(*map(_table, tables.over_seeds(groups)))),
        ("Maps", heatmaps(results)),
        ("Agents", (agents(results) or prose(NO_AGENTS)) if show_agents else None),
        ("Runs", _runs(list(itertools.chain(*groups.values())))),
    ]
    there = [(title, content) for title, content in sections if content is not None]
    title = f"Report of {_number(len(results), 'run')}"
    body = join(
        element("header", element("h1", title), _facts(results, groups), _contents([title for title, _ in there])),
        element(
            "main",
            *(
                element("section", element("h2", title, id=title.lower().replace(" ", "-")), content)
                for title, content in there
            ),
        ),
        element("script", Html(_file("page.js"))),
    )
    return join(Html("<!DOCTYPE html>\n"), element("html", _head(title), element("body", body), lang="en"), "\n")


def _head(title: str) -> Html:
    script = base64.b64encode(hashlib.sha256(_file("page.js").encode()).digest()).decode()
    # What a browser enforces: this page loads nothing and runs no script but its own.
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{script}'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(_file("page.css"))),
    )


def _facts(results: Sequence[Result], groups: Groups) -> Html:
    """What runs, how many, made with what."""
    facts: dict[str, Sequence[str]] = {
        "tasks": [", ".join(in_paper_order(result.task for result in results))],
        "methods": [", ".join(_counted(result.name for result in results))],
        "steps": [f"{sum(result.steps for result in results) / 1e6:,.1f} million in all"],
        "version": _counted(str(read_about(result.folder).get("version", "unknown")) for result in results),
        "commit": _counted(result.commit for result in results),
        "mixed": [
            f"{name} on {task}: its runs are averaged although they differ in {', '.join(settings)}"
            for (task, name), settings in mixtures(groups).items()
        ],
        "page by": [f"bebold {bebold.__version__}"],
    }
    return element(
        "dl",
        *(
            join(element("dt", name), *(element("dd", line) for line in lines))
            for name, lines in facts.items()
            if lines
        ),
    )


def _contents(titles: Sequence[str]) -> Html:
    return element("nav", *(element("a", title, href=f"#{title.lower().replace(' ', '-')}") for title in titles))


def _table(of: tables.Table) -> Html:
    return join(element("h3", of.title), prose(of.caption), table(of.columns, of.rows, of.words))


def _runs(results: Sequence[Result]) -> Html:
    footnote = report.footnote(results)
    lines = table(report.COLUMNS, [report.cells(result) for result in results], words=2)
    return join(lines, *([prose(footnote)] if footnote else []))


def _counted(names: Iterable[str]) -> list[str]:
    """Each name once, with the number of its runs if there are several names."""
    counts = Counter(names)
    if len(counts) == 1:
        return list(counts)
    return [f"{name} ({_number(number, 'run')})" for name, number in counts.items()]


def _number(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
