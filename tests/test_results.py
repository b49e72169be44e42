"""The committed record of the twelve tasks: whole, and what the documents say of it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from bebold.cli import main
from bebold.evaluation import TEST_LEVELS
from bebold.experiments import EXPERIMENTS
from bebold.experiments import visitation as exploration
from bebold.experiments.experiment import REPORTED_SEEDS
from bebold.experiments.published import TASKS
from bebold.groups import group
from bebold.report import find_runs, read_result
from bebold.runs import read_metrics, run_folder
from bebold.settings import FREE_IN_FOLDERS, differences, resolve
from bebold.studies import rooms, visitation
from bebold.sweep import results_of
from bebold.tables import learnt, over_seeds

ROOT = Path(__file__).parents[1]
TABLE2, ABLATIONS = EXPERIMENTS["table2"], EXPERIMENTS["ablations"]
RECORDS = ROOT / "results" / "table2"


def summary_of(experiment: str) -> list[dict[str, str]]:
    """A line a run, as it is committed."""
    with (ROOT / "results" / experiment / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def section(title: str) -> str:
    """Of the document that sets our numbers beside the paper's."""
    return (ROOT / "docs" / "reproduction.md").read_text().split(f"## {title}")[1].split("\n## ")[0]


def returns_of(task: str, method: str) -> list[float]:
    """Of Table 2's runs of a row, seed by seed, with all their digits."""
    folders = sorted((RECORDS / task / method).iterdir())
    return [json.loads((folder / "evaluation.json").read_text())["return_mean"] for folder in folders]


def solved_at(rows: list[dict[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Of each method and task the million steps to solve it, seed by seed, as the documents say them."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        steps = f"{int(row['steps_to_solve']) / 1e6:.1f}" if row["steps_to_solve"] else "-"
        found.setdefault((row["method"], row["task"]), []).append(steps)
    return found


def rounded(value: float) -> str:
    """As the documents say it."""
    return f"{value:.3f}".removeprefix("0")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    """But for what the same agents do on the repaired levels."""
    return [row for row in summary_of("table2") if not row["task"].endswith("-v1")]


def test_the_summary_is_that_of_the_records(rows: list[dict[str, str]]) -> None:
    results = [read_result(folder) for folder in find_runs([RECORDS])]
    assert {(row["task"], row["method"], int(row["seed"])) for row in rows} == {
        (result.task, result.name, result.config.seed) for result in results
    }
    assert len(rows) == len(results)
    for row in rows:
        folder = RECORDS / row["task"] / row["method"] / row["seed"]
        verdict = json.loads((folder / "evaluation.json").read_text())
        assert float(row["return_mean"]) == pytest.approx(verdict["return_mean"], abs=6e-5)
        assert int(row["seed"]) in REPORTED_SEEDS


def test_the_tables_in_the_documents_are_those_of_the_records(tmp_path: Path) -> None:
    title = "Table 2: the twelve hardest tasks"
    tables, picture = tmp_path / "table2.md", tmp_path / "c.png"
    command = ["report", str(RECORDS), "--tables", str(tables), "--title", title, "--out", str(picture)]
    assert main(command) == 0
    assert (ROOT / "docs" / "table2.md").read_text() == (tmp_path / "table2.md").read_text()


def test_the_readme_says_what_the_records_say(rows: list[dict[str, str]]) -> None:
    pattern = (
        r"^\| (\w+) \| (\d) \| ([\d.]+) ± ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) % \|[^|]*"
        r"\| ([-\d., ]+) \| (\d+) M \|"
    )
    found = {line[0]: line[1:] for line in re.findall(pattern, (ROOT / "README.md").read_text(), re.MULTILINE)}
    assert found.keys() == set(TASKS)
    for task, (seeds, mean, deviation, control, levels, solved, budget) in found.items():
        runs = sorted(
            (row for row in rows if (row["task"], row["method"]) == (task, "bebold")), key=lambda r: r["seed"]
        )
        assert len(runs) == int(seeds)
        returns = returns_of(task, "bebold")
        assert (mean, deviation) == (f"{np.mean(returns):.3f}", f"{np.std(returns):.3f}")
        assert control == f"{np.mean(returns_of(task, 'episodic')):.3f}"
        share = 100 * np.mean([read_result(RECORDS / task / "bebold" / run["seed"]).sampled["solved"] for run in runs])
        assert float(levels) == pytest.approx(share, abs=0.051) and (levels == "100") == (share == 100)
        assert solved.strip().split(", ") == solved_at(runs)["bebold", task]
        assert {round(int(run["steps"]) / 1e6) for run in runs} == {int(budget)}


def test_runs_beside_bebolds_may_give_up_only_once_each_of_its_seeds_had_solved_the_task(
    rows: list[dict[str, str]],
) -> None:
    steps: dict[str, int] = {}
    for row in rows:
        if row["method"] == "bebold":
            steps[row["task"]] = max(steps.get(row["task"], 0), int(row["steps_to_solve"]))
    runs = [run for run in TABLE2.runs + ABLATIONS.runs if run.name != "bebold"]
    short = {"MRN6", "MRN7S8", "MRN12S10", "KCS3R3", "KCS4R3", "KCS5R3", "OM2Dlh"}
    for run in runs:
        # The bonus ends at half of the run; four evaluations without it decide.
        bare = max(run.total_steps // 8, 4 * run.evaluation.interval)
        least = max(steps[run.task], 5_000_000, run.total_steps // 2 + bare)
        assert run.give_up_at == 0 if run.task in short else run.give_up_at >= least


def test_bebold_solves_every_task_within_a_quarter_of_the_papers_steps(rows: list[dict[str, str]]) -> None:
    """The paper: MultiRoom within 20 M, KeyCorridor within 40 M, all within 120 M steps."""
    limits = {"MR": 5e6, "KC": 10e6, "OM": 30e6}
    for row in rows:
        if row["method"] == "bebold":
            assert int(row["steps_to_solve"]) <= limits[row["task"][:2]]


def test_the_table_of_entropies_and_betas_is_that_of_the_records() -> None:
    text = section("Entropy and β")
    betas, *lines = re.findall(r"^\| (\S+[^|]*) \|(.*)\|$", text, re.MULTILINE)
    said = {
        (entropy, beta): [step.strip("* ") for step in cell.split(",")]
        for entropy, cells in lines
        for beta, cell in zip(betas[1].replace("β", "").split("|"), cells.split("|"), strict=True)
    }
    runs = EXPERIMENTS["sensitivity"].runs
    cells = {(resolve(run).ppo.entropy, resolve(run).intrinsic.coefficient): (run.name, run.task) for run in runs}
    rows = summary_of("sensitivity")
    assert {(row["method"], int(row["seed"])) for row in rows} == {(run.name, run.seed) for run in runs}
    found = solved_at(rows)
    assert {cells[float(entropy), float(beta)]: steps for (entropy, beta), steps in said.items()} == found
    assert sum(map(len, found.values())) == len(runs)


@pytest.mark.parametrize("experiment", ["table2", "sensitivity", "consistency", "ablations", "static", "every-method"])
def test_records_have_the_settings_of_their_experiment(experiment: str) -> None:
    runs = {(run.task, run.name, run.seed): run for run in EXPERIMENTS[experiment].runs}
    folders = find_runs([ROOT / "results" / experiment])
    assert folders
    for folder in folders:
        result = read_result(folder)
        run = runs[result.task, result.name, result.config.seed]
        assert differences(resolve(run), resolve(result.config), FREE_IN_FOLDERS - {"total_steps"}) == []
        assert result.totals_before == []


def test_the_table_of_the_other_methods_is_that_of_the_records(rows: list[dict[str, str]]) -> None:
    """Lines of steps to solve and of returns, a seed after the other, with a star where the run gave up."""
    text = section("The other methods so far").split("\n### ")[0]
    tasks, *lines = re.findall(r"^\| (.*?)\| (.+) \|$", text, re.MULTILINE)
    told, said = "", {}
    for name, cells in lines:
        told = re.search(r"`(\w+)`", name)[1] if "`" in name else told
        if told and ("return" in name or "solved" in name):
            values = [cell.split(", ") for cell in cells.split(" | ")]
            what = "return" if "return" in name else "solved at"
            said |= {(told, what, task): of for task, of in zip(tasks[1].split(" | "), values, strict=True)}
    solve = ("ride", "rnd", "icm")
    returns = {
        (m, "return", task): [
            rounded(value) + "*" * read_result(folder).gave_up
            for value, folder in zip(returns_of(task, m), sorted((RECORDS / task / m).iterdir()), strict=True)
        ]
        for m in (*solve, "amigo", "none")
        for task in TASKS
    }
    found = solved_at(rows)
    assert said == returns | {(m, "solved at", task): found[m, task] for m in solve for task in TASKS}
    assert all(set(steps) == {"-"} for (method, _), steps in found.items() if method in ("amigo", "none"))


@pytest.mark.parametrize(
    ("title", "methods"),
    [
        ("What novelty adds", {"bebold", "episodic"}),
        ("α 1 and the paper's scale of rewards", {"bebold-alpha1-scale1"}),
    ],
)
def test_the_tables_of_our_own_rows_are_those_of_the_records(
    rows: list[dict[str, str]], title: str, methods: set[str]
) -> None:
    """Lines of steps to solve and of returns, a seed after the other; in brackets is what they do not hold."""
    text = section("Table 2 so far").split(f"### {title}")[1].split("\n### ")[0]
    tasks: list[str] = []
    method, said = next(iter(methods)) if len(methods) == 1 else "", {}
    for name, cells in re.findall(r"^\|([^|]*)\| (.+) \|$", text, re.MULTILINE):
        values = [re.sub(r"\(.*\)", "", cell).strip().split(", ") for cell in cells.split(" | ")]
        kind = name.strip(" `")
        if not kind:
            tasks = cells.split(" | ")
        elif kind in methods | {"solved at", "return"}:
            method = kind if kind in methods else method
            what = "return" if kind == "return" else "solved at"
            said |= {(method, what, task): of for task, of in zip(tasks, values, strict=True)}
    found = {(m, "solved at", task): steps for (m, task), steps in solved_at(rows).items() if m in methods}
    returns = {(m, "return", task): list(map(rounded, returns_of(task, m))) for m in methods for task in TASKS}
    assert said == found | returns


@pytest.mark.parametrize("name", ["ablations", "consistency", "static", "every-method"])
def test_the_tables_beside_records_are_theirs(name: str) -> None:
    folder = ROOT / "results" / name
    results = results_of(EXPERIMENTS[name].runs, [folder, RECORDS], TEST_LEVELS)
    assert len(results) == len(summary_of(name))
    text = (folder / "tables.md").read_text()
    planned = len(EXPERIMENTS[name].runs)
    share = f", {len(results)} of {planned} runs" if len(results) < planned else ""
    assert text.startswith(f"# {EXPERIMENTS[name].title}{share}\n")
    for table in over_seeds(group(results)):
        assert table.markdown() in text


def test_the_table_of_the_static_tasks_is_that_of_the_records() -> None:
    names, *said = re.findall(r"^\|(.*)\|$", section("The other static tasks"), re.MULTILINE)
    results = results_of(EXPERIMENTS["static"].runs, [ROOT / "results" / "static"], TEST_LEVELS)
    table = learnt(group(results))
    assert [f"`{name}`" for name in table.columns[1:]] == [name.strip() for name in names.split("|")[1:]]
    short = [(task.removeprefix("MiniGrid-").removesuffix("-v0"), *cells) for task, *cells in table.rows]
    found = [[re.sub(r"\b0\.", ".", cell) for cell in row] for row in short]
    assert [[cell.strip() for cell in row.split("|")] for row in said[1:]] == found


def test_the_table_of_every_method_is_that_of_the_records() -> None:
    text = section("Every method")
    said = re.findall(r"^\| `([\w-]+)` \| ?(.*?) \| ?(.*?) \| (.*?) \|$", text, re.MULTILINE)
    results = results_of(EXPERIMENTS["every-method"].runs, [ROOT / "results" / "every-method", RECORDS], TEST_LEVELS)
    table = learnt(group(results))
    assert table is not None
    cells = {(task, name): cell for task, *row in table.rows for name, cell in zip(table.columns[1:], row, strict=True)}
    solved = {it.name: it.steps_to_solve for it in results if it.task == "KCS3R3"}
    easy = [f"MiniGrid-KeyCorridorS3R{rows}-v0" for rows in (1, 2)]
    found = {
        name: (*(cells.get((task, name), "") for task in easy), f"{steps / 1e6:.2f}" if steps else "-")
        for name, steps in solved.items()
    }
    assert {name: tuple(row) for name, *row in said} == {
        name: tuple(cell.removeprefix("0") for cell in row) for name, row in found.items()
    }


def test_the_table_of_ablations_is_that_of_the_records() -> None:
    text = section("What each part does")
    tasks, *lines = re.findall(r"^\| (?:`([\w-]+)`[^|]*)?\|(.*) \|$", text, re.MULTILINE)
    said = {
        (task.strip(), arm): cell.strip()
        for arm, cells in lines
        for task, cell in zip(tasks[1].split("|"), cells.split("|"), strict=True)
    }
    rows = summary_of("ablations")
    planned = {(run.task, run.name, run.seed) for run in ABLATIONS.runs}
    assert {(row["task"], row["method"], int(row["seed"])) for row in rows} == planned
    found = solved_at(rows)
    assert said == {(task, arm): ", ".join(steps) for (arm, task), steps in found.items()}


def test_what_is_left_of_the_bonus_is_that_of_the_records() -> None:
    text = section("What is left of the bonus")
    tasks = {"MRN7S8": "MRN7S8", "KCS3R3": "KCS3R3", "KeyCorridorS3R1": "MiniGrid-KeyCorridorS3R1-v0"}
    lines = re.findall(r"^\|(?: (\w+), \d M\S*(?: steps)?)? \| `([\w-]+)` \| (.*) \|$", text, re.MULTILINE)
    found, task = [], ""
    for name, method, numbers in lines:
        task = tasks.get(name, task)
        folders = sorted((ROOT / "results" / "consistency" / task / f"{method}-long").iterdir())
        *said, means = (column.split(", ") for column in numbers.split(" | "))
        left = zip(*(left_of_the_bonus(folder) for folder in folders), strict=True)
        assert [[*map(float, column)] for column in said] == [[float(f"{x:.2g}") for x in column] for column in left]
        assert means == [rounded(read_result(folder).last_return) for folder in folders]
        found += [(task, f"{method}-long", folder.name) for folder in folders]
    assert sorted(found) == sorted((row["task"], row["method"], row["seed"]) for row in summary_of("consistency"))


def left_of_the_bonus(folder: Path) -> tuple[float, float, float]:
    """β × mean bonus per step: the largest, the last, and what the last comes to in an episode."""
    config, metrics = resolve(read_result(folder).config), read_metrics(folder)
    known = np.isfinite(metrics["intrinsic/reward_mean"])
    bonus = config.intrinsic.coefficient * metrics["intrinsic/reward_mean"][known]
    return bonus.max(), bonus[-1], bonus[-1] * metrics["charts/episodic_length"][known][-1]


def test_the_corridors_were_visited_evenly_by_bebold() -> None:
    with (ROOT / "results" / "corridor.csv").open() as file:
        reader = csv.DictReader(file)
        rows = {row["method"]: row for row in reader}
    visits = [f"visits_{corridor}" for corridor in range(1, 5)]
    assert reader.fieldnames == ["method", *visits, "entropy_mean", "entropy_std", "seeds"]
    assert list(rows) == ["count-tabular", "bebold-tabular", "rnd", "bebold"]
    assert float(rows["bebold-tabular"]["entropy_mean"]) >= 1.95
    assert float(rows["bebold"]["entropy_mean"]) >= 1.9
    text = (ROOT / "docs" / "corridor.md").read_text()
    for row in rows.values():
        assert f"{float(row['entropy_mean']):.2f} ± {float(row['entropy_std']):.2f}" in text
        assert int(row["seeds"]) >= 10


def test_the_readme_says_how_fast_the_published_settings_are() -> None:
    speed = json.loads((ROOT / "results" / "presets.json").read_text())["steps_per_second"]
    readme = " ".join((ROOT / "README.md").read_text().split())
    bebold, amigo, *others = (speed[m]["paper"] for m in ("bebold", "amigo", "ride", "icm", "rnd", "none"))
    ours = [of["fast"] / 1e3 for of in speed.values()]
    assert f"makes {round(bebold, -1):.0f} steps a second of BeBold's" in readme
    assert (
        f"{amigo / 1e3:.1f} K of AMIGo's and {min(others) / 1e3:.0f} to {max(others) / 1e3:.0f} K of RIDE's" in readme
    )
    assert f"in the same go, {min(ours):.0f} to {max(ours):.0f} K (" in readme


def test_the_tables_of_rooms_are_those_of_their_records() -> None:
    folder = ROOT / "results" / "visitation"
    runs = visitation.read([read_result(run_folder(run, folder)) for run in exploration.RUNS])
    text = (folder / "tables.md").read_text()
    for table in (rooms.entropies(runs, exploration.MOMENTS), rooms.entries(runs), rooms.races(runs)):
        assert table.rows and table.markdown() in text
    said = re.findall(
        r"^\| (?:`\w+` )?\| (\d\d) \| (.*) \|$", (ROOT / "docs" / "visitation.md").read_text(), re.MULTILINE
    )
    entries = [[cell.removeprefix("0") for cell in row[1:]] for row in rooms.entries(runs).rows]
    assert [[seed, *cells.replace("*", "").split(" | ")] for seed, cells in said] == entries
    for run in exploration.RUNS:
        recorded = read_result(run_folder(run, folder)).config
        assert differences(resolve(run), resolve(recorded), FREE_IN_FOLDERS - {"total_steps"}) == []
