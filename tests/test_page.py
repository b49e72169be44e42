"""The page of a report: one file, well formed, without a stranger's HTML, and alive in a browser."""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import Browser

from bebold import page, report, video
from bebold.checkpoint import save_weights
from bebold.cli import main
from bebold.config import TrainConfig
from bebold.envs import make_envs
from bebold.evaluation import TEST_SEED, make_policy
from bebold.maps import Maps
from bebold.page import agents, document
from bebold.page.colours import palette, scales
from bebold.page.elements import Html, element, prose
from bebold.page.heatmaps import data
from bebold.report import Result
from bebold.runs import Run
from bebold.video import play_episode

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
"""All void elements of HTML5."""
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;$x$"


class Page(HTMLParser):
    """Reads a page, and fails where elements do not close in turn."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {attrs}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> outside of SVG"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


def make_run(root: Path, returns: list[float], **settings: object) -> Path:
    """A run folder in which the k-th evaluation is at k million steps and has this return."""
    with Run.create(replace(TrainConfig(task="MRN7S8", workers=1), **settings), root) as run:  # type: ignore[arg-type]
        for million, value in enumerate(returns, start=1):
            run.log(1_000_000 * million, {"charts/episodic_return": math.nan, "eval/return_mean": value})
    path = run.folder / "metrics.jsonl"
    path.write_text(re.sub(r'"time/elapsed": [^,}]*', '"time/elapsed": 60.0', path.read_text()))
    return run.folder


def make_maps(seed: int, checkpoints: int = 3) -> Maps:
    """Random numbers in a level of 5 x 7 cells with two rooms, some cells without any."""
    rng = np.random.default_rng(seed)
    walls = np.zeros((5, 7), bool)
    walls[[0, -1]] = walls[:, [0, 3, 6]] = True
    room = np.where(walls, -1, np.arange(7) > 3).astype(np.int8)
    visits = np.cumsum(rng.integers(0, 10 ** rng.integers(1, 6, (checkpoints, 5, 7))) * ~walls, axis=0)
    density = rng.random((checkpoints, 5, 7)) * (visits > 0)
    density = (density / density.sum(axis=(1, 2), keepdims=True)).astype(np.float32)
    bonus = np.where(density > 0, rng.normal(1.0, 1.0, density.shape), np.nan).astype(np.float32)
    steps = 200_000 * np.arange(1, checkpoints + 1)
    return Maps(steps, visits, bonus, density, walls, room, np.array([12_000, -1]))


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    """Three methods on two tasks; maps of two of them, with different checkpoints."""
    root = tmp_path / "runs"
    folders = [make_run(root, [0.1, 0.3 * seed, 0.6], seed=seed) for seed in (1, 2, 3)]
    folders += [make_run(root, [0.0, 0.1], seed=1, method="rnd"), make_run(root, [0.2], task="KCS3R3", method="none")]
    make_maps(0).save(folders[0] / "maps.npz")
    make_maps(1, checkpoints=4).save(folders[3] / "maps.npz")
    return [report.read_result(folder) for folder in folders]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as browser:
        yield browser


def test_a_page_is_well_formed_and_asks_for_nothing(results: list[Result]) -> None:
    text = document.page(results)
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>\n<html")
    assert [tag for tag, _ in page.elements].count("figure") == 2 + 6  # two tasks; three kinds of two maps
    names = page.attributes("id")
    assert len(set(names)) == len(names)
    assert set(re.findall(r'(?:href="|url\()#([^")]*)', text)) <= set(names)
    for name in ("src", "href", "xlink:href", "data", "poster", "srcset", "action"):
        assert all(value.startswith(("#", "data:")) for value in page.attributes(name))
    assert not re.search(r"@import|url\((?!#)", text)
    addresses = set(re.findall(r"https?://[^\"' <]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names of XML, not places
    assert {tag for tag, _ in page.elements}.isdisjoint({"iframe", "link", "object", "embed", "base"})


def test_a_page_holds_the_tables_and_where_runs_come_from(results: list[Result]) -> None:
    path = results[0].folder / "config.yaml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["version: 0.0.9", "commit: abcdef", *lines[2:]]))
    verdict = {"steps": 3_000_000, "return_mean": 0.625, "episodes": 512}
    (results[0].folder / "evaluation.json").write_text(json.dumps(verdict))
    page = Page(document.page([report.read_result(result.folder) for result in results]))
    cells, facts = page.texts["td"], page.texts["dd"]
    row = cells.index("MRN7S8")
    assert cells[row : row + 6] == ["MRN7S8", "bebold", "1 of 3", "0.625", "-", "0.67"]
    assert {"abcdef (1 run)", "0.0.9 (1 run)", "MRN7S8, KCS3R3", "12.0 million in all"} <= set(facts)
    assert page.texts["h1"] == ["Report of 5 runs"]
    assert page.texts["h3"][:3] == ["Returns", "Solved tasks", "Steps to solve"]
    assert "never" in cells and "0.012" in cells  # rooms of the maps


def test_a_page_says_what_it_averages_though_it_differs(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, [0.1], seed=1), make_run(tmp_path, [0.1], seed=2, unroll=20)]
    page = Page(document.page([report.read_result(folder) for folder in folders]))
    assert "bebold on MRN7S8: its runs are averaged although they differ in unroll" in page.texts["dd"]


def test_the_same_runs_give_the_same_bytes(results: list[Result], tmp_path: Path) -> None:
    for name in ("a", "b"):
        page.write(results, tmp_path / f"{name}.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    shutil.copytree(tmp_path / "runs", tmp_path / "elsewhere")
    moved = [report.read_result(tmp_path / "elsewhere" / r.folder.relative_to(tmp_path / "runs")) for r in results]
    assert document.page(moved) == (tmp_path / "a.html").read_text()


def test_a_strangers_words_stay_words(results: list[Result], tmp_path: Path) -> None:
    config = replace(results[0].config, label=HOSTILE)
    path = results[0].folder / "config.yaml"
    path.write_text(path.read_text().replace("version: ", f"version: {json.dumps(HOSTILE)}\nold: ", 1))
    one = replace(results[0], config=config, task=HOSTILE, commit=f"{HOSTILE}\0\ud800")
    text = document.page([one, *results[1:]])
    parsed = Page(text)
    assert [tag for tag, _ in parsed.elements].count("img") == 0
    assert [tag for tag, _ in parsed.elements].count("script") == 4  # the page's own, palette, two studies
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)
    assert {HOSTILE} <= set(parsed.texts["td"]) and any(HOSTILE in fact for fact in parsed.texts["dd"])
    assert "\0" not in text
    page.write([one], tmp_path / "page.html")  # half a surrogate has no bytes of its own
    assert "onerror" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_elements_are_escaped() -> None:
    assert element("p", 'a<b & "c"', class_='x"y', data_of=1, hidden=True, id=None) == (
        '<p class="x&quot;y" data-of="1" hidden>a&lt;b &amp; &quot;c&quot;</p>'
    )
    assert element("input", value="<") == '<input value="&lt;">'
    assert element("b", Html("<i></i>"), "<i>") == "<b><i></i>&lt;i&gt;</b>"
    assert prose("see `a<b` there") == "<p>see <code>a&lt;b</code> there</p>"


def test_what_the_slider_shows_is_what_the_arrays_hold() -> None:
    maps = make_maps(2)
    of = json.loads(json.dumps(data(maps, scales([maps])[0]), allow_nan=False))
    x, y = np.array(of["cells"]).T
    for kind, nothing in (("visits", 0), ("bonus", np.nan), ("density", 0)):
        array = getattr(maps, kind)
        filled = np.full(array.shape, nothing, array.dtype)
        filled[:, y, x] = np.array(of["values"][kind], dtype=np.float64)
        np.testing.assert_array_equal(filled, array)


def test_colours_are_spread_over_the_scale() -> None:
    maps = make_maps(3)
    (of,) = scales([maps])
    visits, bonus = of["visits"][0], of["bonus"][1]
    assert visits.low == maps.visits[maps.visits > 0].min() and visits.high == maps.visits.max()
    values = np.array([0, visits.low, np.sqrt(visits.low * visits.high) * 1.001, visits.high])
    assert visits.colour(values).tolist() == [-1, 0, 128, 255]
    assert bonus.low == min(0, np.nanmin(maps.bonus[1])) and bonus.high == np.nanmax(maps.bonus[1])
    quarter = bonus.low + 0.2501 * (bonus.high - bonus.low)
    assert bonus.colour(np.array([np.nan, bonus.low, quarter, bonus.high])).tolist() == [-1, 0, 64, 255]
    assert bonus.low < 0 and bonus.colour(np.array([0.0])).tolist() == [-1]  # not paid: as blank as where nobody was


def test_maps_that_cannot_be_read_are_left_out(results: list[Result], caplog: pytest.LogCaptureFixture) -> None:
    (results[0].folder / "maps.npz").write_bytes(b"no archive")
    with caplog.at_level(logging.WARNING):
        text = document.page(results)
    assert "the page goes without these maps" in caplog.text
    assert text.count('data-kind="visits"') == 1


def make_weights(folder: Path, task: str, fixed_level: int | None = None) -> None:
    """Those of an untrained policy."""
    config = replace(TrainConfig(task=task, method="none"), network=replace(TrainConfig().network, hidden=8, memory=8))
    envs = make_envs(task, 1)
    policy = make_policy(config, envs)
    envs.close()
    words = {
        "config": json.dumps(
            {"task": task, "method": "none", "network": {"hidden": 8, "memory": 8}, "fixed_level": fixed_level}
        ),
        "steps": "1",
    }
    save_weights(folder / "weights.safetensors", policy.state_dict(), words)


def test_the_best_agent_at_hand_is_shown(tmp_path: Path) -> None:
    task = "MiniGrid-Empty-5x5-v0"
    worse, better = (
        make_run(tmp_path, [value], task=task, method="none", seed=round(10 * value)) for value in (0.1, 0.9)
    )
    runs = [report.read_result(folder) for folder in (worse, better)]
    assert "Compact records keep none" in document.page(runs)
    assert "Compact records" not in document.page(runs, show_agents=False)
    for folder in (worse, better):
        make_weights(folder, task)
    parsed = Page(document.page(runs))
    (image,) = [attributes for tag, attributes in parsed.elements if tag == "img"]
    assert "none, seed 9, " in (image["alt"] or "")
    assert (image["src"] or "").startswith("data:image/gif;base64,R0lGOD") and len(image["src"] or "") < 400_000
    (better / "weights.safetensors").write_bytes(b"damaged")
    assert "none, seed 1, " in document.page(runs)


def test_an_agent_that_was_trained_on_one_level_is_shown_on_that_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = "MiniGrid-FourRooms-v0"
    other = make_run(tmp_path, [0.1], task=task, method="none", seed=1)
    worse, best = (make_run(tmp_path, [1 - n], task=task, method="none", seed=2 + n, fixed_level=7) for n in (0, 1))
    for folder, value in ((worse, 0.1), (best, 0.2)):  # on their own level; the evaluations are of others
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"steps": 2_000_000, "charts/episodic_return": value}) + "\n")
    for folder in (other, worse, best):
        make_weights(folder, task, fixed_level=7 if folder != other else None)
    played = []
    monkeypatch.setattr(video, "play_episode", lambda *a, **k: played.append(k["seed"]) or play_episode(*a, **k))
    text = agents.agents([report.read_result(folder) for folder in (worse, best, other)]) or ""
    assert re.findall(r"none, seed \d(?:, on level \d)?, ", text)[::2] == [
        "none, seed 3, on level 7, ",
        "none, seed 1, ",
    ]
    assert played == [7, TEST_SEED]


def test_a_gif_is_cut_to_its_size() -> None:
    frames = list(np.random.default_rng(0).integers(0, 255, (20, 64, 64, 3), dtype=np.uint8))
    whole, all_of_them = agents.shortened(frames, limit=10**9)
    gif, shown = agents.shortened(frames, limit=len(whole) // 3)
    assert all_of_them == 20 and 1 < shown < 10
    assert len(gif) <= len(whole) // 3


def test_the_command_writes_a_page_and_no_picture_beside_it(
    results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "runs", "--html", "new/page.html", "--without-agents"]) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
    assert not (tmp_path / "report.png").exists()
    assert main(["report", "runs", "--html", "page.html", "--out", "curves.png", "--without-agents"]) == 0
    assert (tmp_path / "curves.png").exists()
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "new/page.html").read_bytes()


def test_a_browser_opens_the_page_and_moves_the_slider(results: list[Result], tmp_path: Path, browser: Browser) -> None:
    make_weights(results[3].folder, "MRN7S8")
    page.write(results, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.value("document.querySelectorAll('.panels svg path').length") > 20
    images = "[...document.images].map(image => image.complete && image.naturalWidth > 0)"
    assert browser.value(images) == [True]  # the agent's GIF, which the page's own policy must let in
    assert not browser.value("document.querySelector('.slider').hidden")
    fills = """[...document.querySelectorAll("figure[data-kind]")].map(figure =>
        [...figure.querySelectorAll("g rect")].map(rect => rect.getAttribute("fill")))"""
    steps = "[...document.querySelectorAll('.steps')].slice(0, 2).map(span => span.textContent)"
    still = browser.value(fills)
    every = [make_maps(0), make_maps(1, checkpoints=4)]
    for checkpoint in (0, 2, 3):
        browser.value(
            f"{{const slider = document.querySelector('.study input'); slider.value = {checkpoint};"
            "slider.dispatchEvent(new Event('input'))}"
        )
        shown = iter(browser.value(fills))
        for kind in ("visits", "bonus", "density"):
            for maps, of in zip(every, scales(every), strict=True):
                there = ((maps.visits > 0) | (maps.density > 0) | np.isfinite(maps.bonus)).any(axis=0)
                moment = min(checkpoint, len(maps.steps) - 1)
                indices = of[kind][moment].colour(getattr(maps, kind)[moment][there])
                colours = [palette()[index] if index >= 0 else "none" for index in indices]
                assert next(shown) == colours, (kind, checkpoint)
        assert browser.value("document.querySelector('.study output').textContent") == f"{checkpoint + 1} of 4"
    assert browser.value(steps) == ["0.60 million steps", "0.80 million steps"]
    assert browser.value(fills) == still  # what is drawn without JavaScript
    fetched = [url for url in browser.requests if not url.startswith("data:")]  # what the page holds itself
    assert fetched == [(tmp_path / "page.html").resolve().as_uri()]
    assert browser.complaints == []


def test_a_page_fits_a_phone_and_paper(results: list[Result], tmp_path: Path, browser: Browser) -> None:
    page.write(results, tmp_path / "page.html")
    browser.resize(390, 844)
    browser.open(tmp_path / "page.html")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    assert browser.value("new Set([...document.querySelectorAll('.maps figure')].map(f => f.offsetLeft)).size") == 2
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.value("getComputedStyle(document.querySelector('.slider')).display") == "none"
    assert browser.pdf().startswith(b"%PDF")
    assert browser.complaints == []


def test_a_strangers_script_does_not_run(results: list[Result], tmp_path: Path, browser: Browser) -> None:
    """Even if it got past the escapes: the page's own policy stops it."""
    text = document.page(results).replace(
        "<main>", "<main><script>window.ran = 1</script><img src=x onerror='ran = 1'>"
    )
    (tmp_path / "page.html").write_text(text)
    browser.open(tmp_path / "page.html")
    assert browser.value("window.ran") is None
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)
