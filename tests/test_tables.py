"""Sets of runs: grouped, averaged, set beside the paper's numbers, drawn together."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
from rich.console import Console

from bebold import aggregate, curves, groups, report, tables
from bebold.cli import main
from bebold.config import EvaluationConfig, IntrinsicConfig, PPOConfig, TrainConfig
from bebold.errors import UsageError
from bebold.experiments.published import gives_up, in_paper_order
from bebold.report import Result
from bebold.runs import Run
from bebold.settings import FREE_IN_MEANS, differences


def make_run(
    root: Path, returns: Sequence[float], verdicts: Mapping[str, Mapping[str, Any]] | None = None, **settings: Any
) -> Result:
    """A run evaluated at each million steps; `verdicts` by the end of their file's name."""
    with Run.create(replace(TrainConfig(task="KCS4R3", workers=2), **settings), root) as run:
        for million, value in enumerate(returns, start=1):
            run.log(1_000_000 * million, {"eval/return_mean": value})
    for ending, verdict in (verdicts or {}).items():
        steps = 1_000_000 * len(returns)
        (run.folder / f"evaluation{ending}.json").write_text(json.dumps({"steps": steps, **verdict}))
    return report.read_result(run.folder)


def judged(value: float, greedy: float | None = None) -> dict[str, dict[str, float]]:
    verdicts = {"": {"return_mean": value, "episodes": 512}}
    return verdicts if greedy is None else {**verdicts, "-greedy": {"return_mean": greedy, "episodes": 512}}


def test_the_papers_order() -> None:
    assert in_paper_order(["MiniGrid-Z", "OMFull", "KCS3R3", "MiniGrid-A", "OMFull", "MRN6"]) == [
        "MRN6",
        "KCS3R3",
        "OMFull",
        "MiniGrid-Z",
        "MiniGrid-A",
    ]


def test_the_spread_of_values() -> None:
    assert tables.spread([1.0, 3.0]) == "2.00 ± 1.00"
    assert tables.spread([1.0, 3.0], 3, ddof=1) == "2.000 ± 1.414"
    assert tables.spread([2.0], 0, ddof=1) == "2 ± 0"


def test_groups_are_of_one_name_and_task(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, [0.1], seed=2, task="MiniGrid-KeyCorridorS4R3-v0"),
        make_run(tmp_path, [0.1], method="none"),
        make_run(tmp_path, [0.1], task="MRN6"),
        make_run(tmp_path, [0.1]),
        make_run(tmp_path, [0.1], label="wide"),
    ]
    found = groups.group(runs)
    assert list(found) == [("MRN6", "bebold"), ("KCS4R3", "bebold"), ("KCS4R3", "none"), ("KCS4R3", "wide")]
    assert [run.config.seed for run in found["KCS4R3", "bebold"]] == [1, 2]


def test_settings_that_do_not_matter_to_an_average(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = TrainConfig(
        task="MiniGrid-KeyCorridorS4R3-v0",
        label="same",
        preset="paper",
        seed=2,
        workers=1,
        device="cpu",
        checkpoint_interval=1.0,
        total_steps=5,
        evaluation=EvaluationConfig(interval=1, episodes=1),
    )
    assert differences(TrainConfig(task="KCS4R3"), other, FREE_IN_MEANS) == [("total_steps", 10_000_000, 5)]
    constant = TrainConfig(
        ppo=PPOConfig(learning_rate_decay="none", entropy_decay="none"),
        intrinsic=IntrinsicConfig(coefficient_decay="none"),
    )
    assert differences(TrainConfig(task="KCS4R3"), other, groups.may_differ(constant)) == []
    assert groups.may_differ(other) == FREE_IN_MEANS
    changed = replace(other, stop_when_solved=True, intrinsic=IntrinsicConfig(alpha=1.0))
    found = differences(other, changed, FREE_IN_MEANS)
    assert found == [("stop_when_solved", False, True), ("intrinsic.alpha", 0.5, 1.0)]
    runs = [make_run(tmp_path, [0.1]), make_run(tmp_path, [0.1], seed=2, num_envs=512)]
    groups.warn_of_mixtures(groups.group(runs[:1]))
    assert caplog.text == ""
    groups.warn_of_mixtures(groups.group(runs))
    (warning,) = caplog.messages
    assert warning == (
        f"{runs[0].folder} and {runs[1].folder} are both bebold on KCS4R3 but differ in num_envs (256, 512); give one "
        "of them a `label` in its config.yaml, or report them apart"
    )


def test_a_method_that_is_not_in_the_package_is_reported_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [make_run(tmp_path, [0.1], method="change", seed=seed) for seed in (1, 2)]
    groups.warn_of_mixtures(groups.group(runs))
    assert caplog.text == ""


def test_a_seed_that_is_there_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [make_run(tmp_path / place, [0.1], seed=seed) for place, seed in (("a", 1), ("a", 2), ("b", 2))]
    groups.warn_of_mixtures(groups.group(runs))
    (warning,) = caplog.messages
    assert warning.startswith(f"{runs[1].folder} and {runs[2].folder} are both seed 2 of bebold on KCS4R3")


def test_returns_stand_beside_the_papers(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, [0.1], judged(0.90, 0.8)),
        make_run(tmp_path, [0.1], judged(0.94), seed=2),
        make_run(tmp_path, [0.1], seed=3),
        make_run(tmp_path, [0.1], judged(0.5), method="episodic"),
        make_run(tmp_path, [0.1], method="rnd", label="rnd-wide"),
    ]
    view = tables.returns(groups.group(runs))
    assert view.columns == ("task", "method", "seeds", "return", "greedy", "paper")
    assert view.rows == [
        ("KCS4R3", "bebold", "2 of 3", "0.920 ± 0.020", "0.800 (1 of 2)", "0.93"),
        ("KCS4R3", "episodic", "1", "0.500", "-", ""),
        ("KCS4R3", "rnd-wide", "0 of 1", "-", "-", "0.00"),
    ]
    assert "512 levels each" in view.caption


def test_many_methods_stand_side_by_side(tmp_path: Path) -> None:
    tasks = ("MiniGrid-Empty-5x5-v0", "KCS4R3", "MiniGrid-FourRooms-v0")
    runs = [
        make_run(tmp_path, [0.1], judged(value + better / seed), method=method, task=task, seed=seed)
        for task, value in zip(tasks, (0.9, 0.5, 0.1), strict=True)
        for method, better in (("bebold", 0.05), ("rnd", 0.0), ("none", -0.1))
        for seed in (1, 2)
        if (task, method) != ("KCS4R3", "none")
    ]
    view = tables.side_by_side(groups.group([*runs, make_run(tmp_path, [0.1], method="icm")]))  # not judged yet
    assert view.columns == ("task", "bebold", "rnd", "none", "BeBold in the paper")
    assert view.rows == [
        ("KCS4R3", "0.538", "0.500", "", "0.93"),
        ("MiniGrid-Empty-5x5-v0", "0.938", "0.900", "0.825", ""),
        ("MiniGrid-FourRooms-v0", "0.138", "0.100", "0.025", ""),
    ]
    unknown = tables.side_by_side(groups.group([*runs[:6], *(replace(r, task=f"{r.task}-a") for r in runs[:6])]))
    assert unknown.rows == []  # two tasks are few


def test_steps_to_learn_what_the_paper_says_nothing_of(tmp_path: Path) -> None:
    task = "MiniGrid-FourRooms-v0"
    runs = [
        make_run(tmp_path, [0.1, 0.54, 0.54, 0.54], judged(0.8), task=task),
        make_run(tmp_path, [0.1, 0.54, 0.58, 0.59, 0.63], judged(0.55), task=task, seed=2),
        make_run(tmp_path, [0.9, 0.53, 0.53, 0.53], judged(0.5), task=task, method="none"),
        make_run(tmp_path, [0.9, 0.9, 0.9], judged(0.9)),
    ]
    view = tables.learnt(groups.group(runs))
    assert view.columns == ("task", "bebold", "none")
    assert view.rows == [(task, "2.00, 2.00", "-")]  # at .9 of .6, which is .54
    assert "90 % or more of what the best of all these runs has in its last 3" in view.caption


def test_solved_tasks(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, [0.9, 0.9, 0.9]),
        make_run(tmp_path, [0.9, 0.9, 0.8], seed=2),
        make_run(tmp_path, [0.0, 0.0, 0.0], method="none"),
        make_run(tmp_path, [0.62, 0.62, 0.62], task="MRN6"),
        make_run(tmp_path, [0.9, 0.9, 0.9], task="MiniGrid-Empty-5x5-v0"),
    ]
    view = tables.solved(groups.group(runs))
    assert view.columns == ("method", "MRN6", "KCS4R3")
    assert view.rows == [("bebold", "1/1", "1/2"), ("none", "", "0/1")]
    assert "3 progress evaluations in a row at 95 % or more" in view.caption


def test_steps_to_solve(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, [0.1, 0.9, 0.9, 0.9, 0.9]),
        make_run(tmp_path, [0.1, 0.1], seed=2),
        make_run(tmp_path, [0.9, 0.9, 0.9], seed=4, workers=1),
    ]
    minutes = ((0.0, 4.0), (10.0, np.nan), (20.0, 1.0))
    runs = [replace(r, minutes=m, minutes_to_solve=s) for r, (m, s) in zip(runs, minutes, strict=True)]
    (row,) = tables.steps(groups.group(runs)).rows
    assert row == (
        "KCS4R3", "bebold", "1, 2, 4", "2.00, -, 1.00", "4.0, -, 1.0", "2.0 to 5.0", "0.0, 10.0, 20.0", "2, 1",
    )  # fmt: skip


def test_repaired_levels(tmp_path: Path) -> None:
    verdicts = [{"return_mean": value, "solved": share} for value, share in ((0.8, 1.0), (0.6, 0.9), (0.7, 0.95))]
    runs = [
        make_run(tmp_path, [0.1], {"-v1": verdict}, task="OM1Q", seed=seed)
        for seed, verdict in enumerate(verdicts, start=1)
    ]
    runs += [make_run(tmp_path, [0.1], judged(0.5), task="OM1Q", seed=4), make_run(tmp_path, [0.1])]
    (row,) = tables.repaired(groups.group(runs)).rows
    assert row == ("OM1Q-v1", "bebold", "3", "95.0%", "90.0% (seed 2)", "0.700 ± 0.082")  # sqrt(0.02 / 3) = 0.0816


def test_a_table_in_the_terminal_and_as_markdown() -> None:
    view = tables.Table("Title", "A caption.", ("task", "x|"), [("a|b_[c]\nd", "1.0"), ("[bold]e", "10.0")], words=1)
    assert view.markdown() == (
        "## Title\n\nA caption.\n\n| task | x\\| |\n| --- | --: |\n| a\\|b\\_\\[c\\] d | 1.0 |\n"
        "| \\[bold\\]e | 10.0 |\n"
    )
    console = Console(width=60, file=io.StringIO())
    console.print(view.rich())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "│ [bold]e │ 10.0 │" in text and "A caption." in text


def test_the_document_has_the_tables_that_have_rows(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, [0.1], judged(0.9)), make_run(tmp_path, [0.1], task="MiniGrid-Empty-5x5-v0")]
    headings = []
    for some in (runs, runs[1:]):
        tables.write(some, tmp_path / "new" / "tables.md")
        lines = (tmp_path / "new" / "tables.md").read_text().splitlines()
        headings.append([line for line in lines if line.startswith("#")])
    assert headings[0] == ["# Results", "## Returns", "## Solved tasks", "## Steps to solve"]
    assert headings[1] == ["# Results", "## Returns"]


def test_the_interquartile_mean_leaves_out_both_outer_quarters() -> None:
    values = [np.array([[0.0, 0.4], [9.0, 0.4]]), np.array([[2.0, 0.4], [1.0, 0.4]])]
    mean, low, high = aggregate.interquartile_mean(values)
    np.testing.assert_allclose(mean, [1.5, 0.4])  # of 0, 1, 2, 9 the middle two
    assert low[0] < 1.5 < high[0]
    np.testing.assert_allclose([low[1], high[1]], 0.4)


def test_the_bootstrap_draws_the_seeds_of_each_task() -> None:
    """Two seeds with 0 and 1: the means 0, 1/2 and 1 have the chances 1/4, 1/2, 1/4; so the interval is [0, 1]."""
    _, low, high = aggregate.interquartile_mean([np.array([[0.0], [1.0]])])
    assert (low[0], high[0]) == (0, 1)
    mean, low, high = aggregate.interquartile_mean([np.array([[0.0]]), np.array([[1.0]])])  # two tasks, one seed each
    assert mean[0] == low[0] == high[0] == 0.5


def test_curves_relative_to_the_paper(tmp_path: Path) -> None:
    runs = {
        "KCS4R3": [make_run(tmp_path, [0.0, 0.93, 0.93, 0.465]), make_run(tmp_path, [0.0, 0.93], seed=2)],
        "MRN6": [make_run(tmp_path, [0.0, 0.64], task="MRN6")],
    }
    shares, (corridor, rooms) = aggregate.relative_curves(runs, {"KCS4R3": 4_000_000, "MRN6": 4_000_000})
    np.testing.assert_allclose(shares[[0, -1]], [0.25, 1.0])
    at = [int(np.argmin(abs(shares - share))) for share in (0.25, 0.5, 1.0)]
    np.testing.assert_allclose(corridor[:, at], [[0, 1, 0.5], [0, 1, 1]], atol=0.02)
    np.testing.assert_allclose(rooms[:, at], [[0, 1, 1]], atol=0.02)


def test_only_methods_with_the_same_tasks_are_aggregated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [
        make_run(tmp_path, [0.1, 0.9], task=task, method=method)
        for method, of in {"bebold": ("MRN6", "KCS4R3"), "rnd": ("KCS4R3",), "none": ("KCS4R3", "MRN6")}.items()
        for task in of
    ]
    runs.append(make_run(tmp_path, [0.5], task="MiniGrid-Empty-5x5-v0"))
    chosen = aggregate.comparable(runs)
    assert {name: list(of) for name, of in chosen.items()} == {"bebold": ["MRN6", "KCS4R3"], "none": ["MRN6", "KCS4R3"]}
    aggregate.plot(runs, tmp_path / "aggregate.png")
    assert "rnd was not run on the same tasks" in caplog.text and len(caplog.messages) == 1
    assert imageio.imread(tmp_path / "aggregate.png").shape[1] == 1125
    with pytest.raises(UsageError, match="no run has a curve on a task of the paper's table"):
        aggregate.plot(runs[-1:], tmp_path / "none.png")


def test_a_run_gives_up_when_its_last_four_evaluations_earn_nothing() -> None:
    config = TrainConfig(total_steps=10, give_up_at=5)
    nothing = list(enumerate([0.0, -0.1, 0.0, 0.0], start=1))
    assert gives_up(config, 5, nothing) and gives_up(config, 9, list(enumerate([0.5, 0.0, 0.07, 0.0, 0.01], start=1)))
    assert not gives_up(config, 9, list(enumerate([0.0, 0.0, 0.0, 0.09], start=1)))
    assert not gives_up(config, 9, nothing[:3]) and not gives_up(config, 9, [])
    assert not gives_up(config, 4, nothing) and not gives_up(replace(config, give_up_at=0), 9, nothing)
    assert not gives_up(config, 10, nothing), "it has taken all its steps"
    assert not gives_up(config, 9, nothing, asked_at=1), "more was asked for, and three evaluations are after that"


def test_a_run_that_stopped_solved_keeps_its_return_while_others_go_on(tmp_path: Path) -> None:
    every = EvaluationConfig(interval=1_000_000)
    settings: dict[str, Any] = {"stop_when_solved": True, "total_steps": 9_000_000, "evaluation": every}
    runs = [
        make_run(tmp_path, [0.9, 0.92, 0.91], judged(0.9), **settings),
        make_run(tmp_path, [0.0, 0.1, 0.9, 0.9, 0.93], judged(0.9), seed=2, **settings),
        make_run(tmp_path, [0.0, 0.0, 0.0, 0.0], seed=3, give_up_at=4_000_000, **settings),
    ]
    assert [run.stopped_solved for run in runs] == [True, True, False]
    two = curves.new_figure(4, 3).subplots()
    curves.draw_task(two, "KCS4R3", {"bebold": runs[:2]}, curves.styles(["bebold"]))
    mean = next(line for line in two.get_lines() if line.get_label() == "bebold")
    np.testing.assert_allclose(mean.get_xydata(), [[1, 0.45], [2, 0.51], [3, 0.905], [4, 0.905], [5, 0.92]])
    three = curves.new_figure(4, 3).subplots()
    curves.draw_task(three, "KCS4R3", {"bebold": runs}, curves.styles(["bebold"]))
    mean = next(line for line in three.get_lines() if line.get_label() == "bebold")
    np.testing.assert_allclose(mean.get_xydata()[-1], [9, (0.91 + 0.93 + 0) / 3])
    assert "runs that stopped as they were solved" in curves.caption(groups.group(runs))
    assert "as they were solved" not in curves.caption(groups.group(runs[:1]))
    assert "short of their steps: bebold on KCS4R3. " in tables.returns(groups.group(runs)).caption
    others = groups.group([replace(run, config=replace(run.config, stop_when_solved=False)) for run in runs])
    assert "stopped" not in tables.returns(others).caption


def test_a_run_that_gave_up_stays_at_nothing_in_means(tmp_path: Path) -> None:
    every = EvaluationConfig(interval=1_000_000)
    settings: dict[str, Any] = {"give_up_at": 4_000_000, "total_steps": 6_000_000, "evaluation": every}
    runs = [
        make_run(tmp_path, [0.0, 0.0, 0.0, 0.0], judged(0.0), **settings),
        make_run(tmp_path, [0.0, 0.5, 0.6, 0.8, 0.8, 0.8], judged(0.8, 0.9), seed=2, total_steps=6_000_000),
    ]
    assert [run.gave_up for run in runs] == [True, False]
    panel = curves.new_figure(4, 3).subplots()
    curves.draw_task(panel, "KCS4R3", {"bebold": runs}, curves.styles(["bebold"]))
    mean = next(line for line in panel.get_lines() if line.get_label() == "bebold")
    np.testing.assert_allclose(mean.get_xydata(), [[1, 0], [2, 0.25], [3, 0.3], [4, 0.4], [5, 0.4], [6, 0.4]])
    assert "gave up" in tables.solved(groups.group(runs)).caption
    of = groups.group(runs)
    assert groups.mixtures(of) == {}
    assert "runs that gave up stay at their last return" in curves.caption(of)
    assert tables.steps(of).rows[0][5] == "4.0 to 6.0"
    assert "gave up" in tables.steps(of).caption and "gave up" in tables.returns(of).caption
    assert tables.returns(of).rows[0][2:5] == ("2", "0.400 ± 0.400", "0.900 (1 of 2)")
    assert "gave up" not in tables.steps(groups.group(runs[1:])).caption


def test_runs_whose_schedule_changed_on_the_way_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_run(tmp_path, [0.1, 0.9])
    run = make_run(tmp_path, [0.1, 0.9], seed=2)
    with Run.open(run.folder) as opened:
        opened.note_total(1_000_000, 10_000_000)
        assert opened.asked_at == 0
        opened.note_total(1_000_000, 20_000_000)
        opened.write_config(opened.config)
    results = [report.read_result(tmp_path / "KCS4R3" / "bebold" / seed) for seed in ("1", "2")]
    groups.warn_of_mixtures(groups.group(results))
    assert "differ in total_steps_before ([], [(1000000, 10000000)])" in caplog.text
    alike = [replace(results[0], totals_before=[(1_005_000, 10_000_000)]), results[1]]
    assert groups.mixtures(groups.group(alike)) == {}
    later = [replace(results[0], totals_before=[(1_500_000, 10_000_000)]), results[1]]
    assert list(groups.mixtures(groups.group(later)).values()) == [["total_steps_before"]]
    still = replace(run.config, ppo=PPOConfig(learning_rate_decay="none", entropy_decay="none"))
    still = replace(still, intrinsic=IntrinsicConfig(coefficient_decay="none"))
    assert groups.mixtures(groups.group([replace(result, config=still) for result in results])) == {}


def test_the_report_of_a_set_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    make_run(tmp_path / "runs", [0.1, 0.9], judged(0.90))
    command = ["report", str(tmp_path / "runs"), "--out", str(tmp_path / "curves.png")]
    assert main(command) == 0
    assert "Returns" not in capsys.readouterr().out  # nothing to average
    make_run(tmp_path / "runs", [0.1, 0.9], judged(0.94), seed=2, intrinsic=IntrinsicConfig(alpha=1.0))
    markdown, picture = tmp_path / "tables.md", tmp_path / "aggregate.png"
    with caplog.at_level(logging.WARNING):
        assert main([*command, "--tables", str(markdown), "--aggregate", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "0.920 ± 0.020" in out and f"{markdown}: tables over seeds" in out and str(picture) in out
    assert "differ in intrinsic.alpha (0.5, 1.0)" in caplog.text
    assert "| KCS4R3 | bebold | 2 | 0.920 ± 0.020 | - | 0.93 |" in markdown.read_text()
    assert imageio.imread(picture).shape[0] > 300
