"""The study of pure exploration: its settings, its tables beside numbers worked out otherwise, its pictures."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy.stats import entropy

from bebold import sweep as sweep_module
from bebold.cli import main
from bebold.config import MapsConfig, NetworkConfig
from bebold.experiments import visitation as experiment
from bebold.experiments.experiment import REPORTED_SEEDS
from bebold.experiments.published import ENTROPY_STEPS, ROOM_ENTROPIES
from bebold.gridworld.layout import layout
from bebold.gridworld.tasks import find_task, make_farama
from bebold.maps import FILE, Maps
from bebold.report import read_result
from bebold.runs import run_folder
from bebold.settings import differences, resolve, validate
from bebold.studies import heatmaps, rooms, visitation
from bebold.studies.rooms import Explored

RECORDS = Path(__file__).parents[2] / "results" / "visitation"
STEPS = (200_100, 500_200, 2_000_300)


def make_maps(seed: int, first_entry: tuple[int, ...], lowest_bonus: float = -0.2) -> Maps:
    """Made-up maps of the study's level: rooms that were entered are visited unevenly."""
    level = layout("MRN7S8", experiment.LEVEL)
    rng = np.random.default_rng(seed)
    entry = np.array(first_entry)
    known = [(level.room >= 0) & (entry >= 0)[level.room] & (entry[level.room] <= steps) for steps in STEPS]
    visits = (rng.integers(1, 99, (len(STEPS), *level.room.shape)) * np.array(known)).cumsum(axis=0)
    density = (rng.random(visits.shape) * np.array(known)).astype(np.float32)
    density /= density.sum(axis=(1, 2), keepdims=True)
    bonus = np.where(density > 0, rng.uniform(lowest_bonus, 1.0, density.shape), np.nan).astype(np.float32)
    return Maps(np.array(STEPS), visits, bonus, density, level.walls, level.room, entry)


@pytest.fixture(scope="module")
def runs() -> list[Explored]:
    return [
        Explored("bebold", 11, make_maps(0, (0, 100, 300_000, 1_500_000, 1_600_000, 1_700_000, 2_000_200))),
        Explored("bebold", 12, make_maps(1, (0, 200, 400_000, -1, -1, -1, -1))),
        Explored("rnd", 11, make_maps(2, (0, 90, 1_900_000, -1, -1, -1, -1))),
        Explored("rnd", 12, make_maps(3, (0, 80, 350_000, -1, -1, -1, -1))),
    ]


def test_both_methods_have_one_learner_and_nothing_falls() -> None:
    assert {(run.method, run.seed) for run in experiment.RUNS} == {
        (method, seed) for method in ("bebold", "rnd") for seed in REPORTED_SEEDS[:3]
    }
    assert len({run_folder(run, Path()) for run in experiment.RUNS}) == 6
    for runs in (experiment.RUNS, experiment.SMOKE):
        for run in runs:
            validate(run)
            assert not differences(resolve(run), resolve(runs[0]), {"method", "seed", "label"})
    (run, *_) = experiment.RUNS
    assert run.ppo.extrinsic_scale == 0 and run.evaluation.interval == 0
    decays = (run.ppo.learning_rate_decay, run.ppo.entropy_decay, run.intrinsic.coefficient_decay)
    assert set(decays) == {"none"}
    assert run.total_steps == 9_800_000 and set(ENTROPY_STEPS) <= set(experiment.MOMENTS)
    assert all(moment % run.maps.interval == 0 for moment in experiment.MOMENTS)


def test_the_level_bounds_the_papers_entropies_closely() -> None:
    sizes = np.bincount(layout("MRN7S8", experiment.LEVEL).room.flat[:] + 1)[1:]
    assert sizes[:4].tolist() == [12, 12, 18, 8] and sizes.min() == 8
    for room, bound in enumerate(np.log2(sizes[:4])):
        largest = max(value for table in ROOM_ENTROPIES.values() for value in table[room] if value is not None)
        assert 0 < bound - largest < 0.2


def test_entropies_stand_beside_the_papers(runs: list[Explored]) -> None:
    table = rooms.entropies(runs, (200_000, 500_000, 1_000_000, 2_000_000, 5_000_000))
    assert table.columns == ("room", "steps", "bebold", "rnd", "bebold, paper", "rnd, paper", "at most")
    lines = {(row[0], row[1]): row[2:] for row in table.rows}
    bits = [entropy(run.maps.visits[1][run.maps.room == 0], base=2) for run in runs[:2]]
    expected = f"{sum(bits) / 2:.2f} ± {abs(bits[0] - bits[1]) / 2:.2f} (2)"
    assert lines["1", "0.5 M"][0] == expected and lines["1", "0.5 M"][2:] == ("3.53", "3.41", "3.58")
    assert lines["2", "0.2 M"][2:4] == ("–", "2.87")
    assert lines["3", "0.5 M"][0].endswith("(2)") and lines["3", "0.5 M"][1].endswith("(1)")
    alone = entropy(runs[3].maps.visits[1][runs[3].maps.room == 2], base=2)
    assert lines["3", "0.5 M"][1] == f"{alone:.2f} ± 0.00 (1)"
    assert lines["7", "2 M"][0].endswith("(1)") and lines["7", "2 M"][1:4] == ("", "", "")
    assert lines["4", "5 M"][:4] == ("", "", "2.87", "2.85")  # no run came that far, the paper's did
    assert ("7", "0.2 M") not in lines


def test_first_entries_and_who_was_sooner(runs: list[Explored]) -> None:
    entries = rooms.entries(runs)
    assert entries.columns[2:] == tuple(f"room {room}" for room in range(2, 8))
    assert entries.rows[0] == ("bebold", "11", "0.000", "0.300", "1.500", "1.600", "1.700", "2.000")
    assert entries.rows[3] == ("rnd", "12", "0.000", "0.350", *["never"] * 4)
    races = rooms.races([*runs, Explored("bebold", 13, runs[0].maps)])
    assert [row[0] for row in races.rows] == ["11", "12"]  # nothing was with seed 13 but BeBold
    assert races.rows[0] == ("11", "2.000", "never", "7", "3", "bebold")
    assert races.rows[1] == ("12", "never", "never", "3", "3", "rnd")


@pytest.mark.parametrize(
    ("bebold", "rnd", "expected"),
    [
        ((0, 5, 9), (0, 4, 10), "bebold"),
        ((0, 5, 9), (0, 4, 8), "rnd"),
        ((0, 5, -1), (0, 4, 10), "rnd"),
        ((0, 5, -1), (0, 4, -1), "rnd"),
        ((0, 4, -1), (0, 4, -1), "neither"),
        ((0, -1, -1), (0, -1, -1), "neither"),
    ],
)
def test_sooner_is_who_enters_the_farthest_room_first(bebold, rnd, expected) -> None:
    assert rooms.sooner({"bebold": np.array(bebold), "rnd": np.array(rnd)}) == expected


def test_where_the_bonus_was() -> None:
    maps = make_maps(0, (0, 100, 100, -1, -1, -1, -1))
    density, bonus = np.zeros_like(maps.density), np.full_like(maps.bonus, np.nan)
    (first, other), (second, *_), (third, *_) = (np.argwhere(maps.room == room)[:2].tolist() for room in range(3))
    # Room 1: 0.5 + 0.1 of the steps, 0.2 and 0.8 a step, mean 0.3. Room 2: 0.4 a step. Room 3 was not visited.
    for (y, x), share, paid in ((first, 0.5, 0.2), (other, 0.1, 0.8), (second, 0.4, 0.4)):
        density[:, y, x], bonus[:, y, x] = share, paid
    maps = replace(maps, density=density, bonus=bonus)
    table = rooms.best_paid([Explored("bebold", 11, maps)], (200_000, 9_000_000))
    assert table.rows == [("bebold", "11", "2 (1)", "")]
    unpaid = replace(maps, bonus=np.where(density > 0, np.float32(0), np.float32(np.nan)))
    assert rooms.best_paid([Explored("rnd", 11, unpaid)], (200_000,)).rows == [("rnd", "11", "none (1)")]
    assert third


def test_what_counting_takes_leaves_out_the_updates_with_maps(tmp_path: Path) -> None:
    recorded = read_result(RECORDS / "MRN7S8/bebold-explores/11")
    folders = [tmp_path / "run", tmp_path / "record"]
    # 1 ms of 100, 1 ms of 50, and after the third update maps are taken.
    stages = [(0.039, 0.06, 0.001), (0.04, 0.009, 0.001), (0.1, 0.1, 0.5)]
    lines = [{"steps": n, "time/collect": c, "time/learn": k, "time/observe": o} for n, (c, k, o) in enumerate(stages)]
    for folder, kept in zip(folders, (lines, [{"steps": 2}]), strict=True):
        folder.mkdir()
        (folder / "metrics.jsonl").write_text("\n".join(json.dumps({"time/elapsed": 9.0} | line) for line in kept))
    table = visitation.costs([replace(recorded, folder=folder) for folder in folders])
    assert table.rows == [("bebold", "11", "100", "1.00", "2.00 %"), ("bebold", "11", "-", "-", "-")]


def test_the_csv_says_all_of_it(runs: list[Explored], tmp_path: Path) -> None:
    rooms.write_csv(runs, (200_000, 2_000_000, 5_000_000), tmp_path / "rooms.csv")
    with (tmp_path / "rooms.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(runs) * 2 * 7  # nobody has come to 5 M
    by_place = {(x["method"], x["seed"], x["steps"], x["room"]): x for x in lines}
    line = by_place["bebold", "11", "2000000", "3"]
    visits = runs[0].maps.visits[2][runs[0].maps.room == 2]
    assert (line["steps_taken"], line["places"], line["first_entry"]) == ("2000300", "18", "300000")
    assert int(line["visits"]) == visits.sum()
    assert float(line["entropy_bits"]) == pytest.approx(entropy(visits, base=2), abs=1e-4)
    later = by_place["bebold", "11", "200000", "3"]  # it was entered after that
    assert (later["visits"], later["entropy_bits"], later["first_entry"]) == ("0", "", "")
    rooms.write_csv(runs, (5_000_000,), tmp_path / "rooms.csv")
    assert (tmp_path / "rooms.csv").read_text() == ",".join(rooms.COLUMNS) + "\n"


def test_doors_are_those_of_the_level(runs: list[Explored]) -> None:
    env = make_farama(find_task("MRN7S8")).unwrapped
    env.reset(seed=experiment.LEVEL)
    found = heatmaps.doors(runs[0].maps)
    for y, x in np.ndindex(*found.shape):
        thing = env.grid.get(x, y)
        assert found[y, x] == (thing is not None and thing.type == "door")


def test_a_picture_has_a_row_a_run_and_shows_what_is_above_nothing(
    runs: list[Explored], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = []
    monkeypatch.setattr(heatmaps, "save", lambda figure, path: figures.append(figure))
    moments = (200_000, 2_000_000, 5_000_000)
    for draw in (heatmaps.visits, heatmaps.density, heatmaps.bonus):
        draw(runs, moments, tmp_path / "map.png")
    for figure, name in zip(figures, ("visits", "density", "bonus"), strict=True):
        panels = np.array(figure.axes[:-1]).reshape(len(runs), len(moments))  # the last is the scale
        assert [panel.get_title() for panel in panels[0]] == ["0.2 M steps", "2 M steps", "5 M steps"]
        assert [panel.get_ylabel() for panel in panels[:, 0]] == [run.title for run in runs]
        for row, run in zip(panels, runs, strict=True):
            assert [len(panel.images) for panel in row] == [2, 2, 0]  # walls and values; nothing at 5 M
            for panel, index in zip(row, (0, 2), strict=False):
                shown, values = panel.images[1].get_array(), getattr(run.maps, name)[index].astype(float)
                np.testing.assert_array_equal(shown.mask, ~(values > 0))
                scale = np.nanmax(values) if name == "bonus" else values.sum()
                np.testing.assert_allclose(shown.compressed(), values[values > 0] / scale, rtol=1e-5)


def test_a_bonus_that_is_nowhere_above_0_leaves_the_panel_blank(tmp_path: Path) -> None:
    maps = make_maps(0, (0, 100, -1, -1, -1, -1, -1))
    unpaid = replace(maps, bonus=np.where(maps.density > 0, np.float32(0), np.float32(np.nan)))
    heatmaps.bonus([Explored("bebold", 11, unpaid)], (200_000,), tmp_path / "bonus.png")
    assert imageio.imread(tmp_path / "bonus.png").std() > 1


def test_one_command_explores_and_draws_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = tuple(
        replace(
            run,
            total_steps=600,
            num_envs=16,
            unroll=16,
            network=NetworkConfig(hidden=16, memory=16),
            maps=MapsConfig(interval=300, steps=50),
        )
        for run in experiment.SMOKE
    )
    monkeypatch.setattr(experiment, "SMOKE", tiny)
    monkeypatch.setattr(experiment, "SMOKE_MOMENTS", (300, 600))
    assert main(["reproduce", "visitation", "--smoke", "--quiet", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "visitation-smoke"
    assert str(folder) in capsys.readouterr().out
    text = (folder / "tables.md").read_text()
    assert (
        text.startswith(f"# {visitation.TITLE}") and "| rnd | 11 |" in text and "What counting the visits takes" in text
    )
    for name in ("visitation.png", "bonus.png", "density.png"):
        assert imageio.imread(folder / name).std() > 1
    with (folder / "rooms.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["method"], line["steps"]) for line in lines} == {
        (method, steps) for method in ("bebold", "rnd") for steps in ("300", "600")
    }
    for run in tiny:
        of_run, of_record = (run_folder(run, folder / part) / FILE for part in ("runs", "records"))
        assert of_run.read_bytes() == of_record.read_bytes()
        assert not list(of_run.parent.glob("evaluation*"))
    monkeypatch.setattr(experiment, "RUNS", tiny)
    (folder / "runs").rename(tmp_path / "runs")
    # A run that fails leaves tables and figures of the others.
    others = run_folder(tiny[-1], tmp_path / "runs")
    others.rename(tmp_path / "aside")
    (others / "log.txt").mkdir(parents=True)
    assert main(["reproduce", "visitation", "--quiet", "--out", str(tmp_path)]) == 1
    assert "1 of 2 runs failed" in capsys.readouterr().err
    assert "| rnd |" not in (tmp_path / "visitation" / "tables.md").read_text()
    (others / "log.txt").rmdir()
    others.rmdir()
    (tmp_path / "aside").rename(others)
    checkpoints = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    assert main(["reproduce", "visitation", "--quiet", "--out", str(tmp_path)]) == 0
    assert checkpoints == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}


def test_records_are_drawn_without_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "sweep", lambda *_, **__: pytest.fail("nothing is to be trained"))
    assert main(["reproduce", "visitation", "--records", str(RECORDS), "--out", str(tmp_path)]) == 0
    folder = tmp_path / "visitation"
    assert (folder / "rooms.csv").read_bytes() == (RECORDS / "rooms.csv").read_bytes()
    counting = "## What counting the visits takes"
    ours, whole = ((path / "tables.md").read_text().split(counting) for path in (folder, RECORDS))
    assert ours[0] == whole[0] and "| rnd | 13 | - | - | - |" in ours[1]
    for name in ("visitation.png", "bonus.png", "density.png"):
        assert imageio.imread(folder / name).std() > 1
    assert not (folder / "records").exists()
