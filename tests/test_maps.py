"""The file of maps: what is written is read, what is not one of ours is refused."""

from __future__ import annotations

import re
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import entropy

from bebold import maps as module
from bebold.config import MOST_MAPS
from bebold.errors import RunError
from bebold.maps import AXES, SIDE, Maps, room_entropies

K, H, W, R = 3, 6, 9, 2


def make_maps(seed: int = 0) -> Maps:
    """Two rooms side by side, with a door between them."""
    rng = np.random.default_rng(seed)
    room = np.full((H, W), -1, np.int8)
    room[1:-1, 1:4], room[1:-1, 5:-1] = 0, 1
    walls = room < 0
    walls[3, 4] = False
    visits = rng.integers(0, 50, (K, H, W)).cumsum(axis=0) * ~walls
    density = (rng.random((K, H, W)) * ~walls).astype(np.float32)
    density /= density.sum(axis=(1, 2), keepdims=True)
    bonus = np.where(walls, np.nan, rng.random((K, H, W))).astype(np.float32)
    return Maps(np.array([10, 20, 40]), visits, bonus, density, walls, room, np.array([0, -1]))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    maps = make_maps()
    maps.save(tmp_path / "maps.npz")
    read = Maps.load(tmp_path / "maps.npz")
    for field in fields(Maps):
        one, other = getattr(maps, field.name), getattr(read, field.name)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype == AXES[field.name][0]
    assert [path.name for path in tmp_path.iterdir()] == ["maps.npz"]


def test_maps_of_a_run_that_has_just_begun_can_be_kept(tmp_path: Path) -> None:
    maps = make_maps()
    none = replace(maps, **{name: getattr(maps, name)[:0] for name, (_, axes) in AXES.items() if axes[0] == "K"})
    none.save(tmp_path / "maps.npz")
    read = Maps.load(tmp_path / "maps.npz")
    assert read.entropies().shape == (0, R) and read.at(0) is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("steps", np.array([10, 20]), "visits has 3 entries along K"),
        ("steps", np.array([10, 40, 20]), "steps do not rise"),
        ("steps", np.array([10.0, 20.0, 40.0]), "no array of int64"),
        ("walls", np.zeros((H + 1, W), bool), "entries along H"),
        ("room", np.full((H, W), R, np.int8), "other rooms"),
        ("first_entry", np.array([0, -2]), "negative"),
        ("density", np.full((K, H, W), 1 / (2 * H * W), np.float32), "add up to 1"),
        ("bonus", np.full((K, H, W), np.inf, np.float32), "infinite"),
    ],
)
def test_impossible_maps_are_refused_in_one_sentence(name: str, value: np.ndarray, reason: str, tmp_path: Path) -> None:
    maps = make_maps()
    with pytest.raises(ValueError, match=reason):
        replace(maps, **{name: value})
    path = tmp_path / "maps.npz"
    np.savez(path, **{f.name: getattr(maps, f.name) for f in fields(Maps)} | {name: value})
    with pytest.raises(RunError, match=f"holds no maps of a run .*{reason}.*; `bebold resume ") as caught:
        Maps.load(path)
    assert len(str(caught.value).splitlines()) == 1


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def _other_program(path: Path) -> None:
    np.savez(path, weights=np.ones(3))


def _pickled(path: Path) -> None:
    maps = make_maps()
    arrays = {f.name: getattr(maps, f.name) for f in fields(Maps)}
    np.savez(path, **arrays | {"steps": np.array([print, print, print], dtype=object)})


def _text(path: Path) -> None:
    path.write_text("steps")


@pytest.mark.parametrize("damage", [_cut_short, _flip, _other_program, _pickled, _text])
def test_damaged_and_foreign_files_are_refused(damage, tmp_path: Path) -> None:
    path = tmp_path / "maps.npz"
    make_maps().save(path)
    damage(path)
    with pytest.raises(RunError, match=rf"^{re.escape(str(path))} holds no maps of a run \(.+\); `bebold resume "):
        Maps.load(path)


def test_a_file_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "maps.npz"
    make_maps().save(path)
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setattr(module, "LARGEST", size)
    Maps.load(path)
    monkeypatch.setattr(module, "LARGEST", size - 1)
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(RunError, match="it is too large"):
        Maps.load(path)


def _wide(moments: int, height: int, width: int) -> dict[str, np.ndarray]:
    """The arrays of a level that is one room, visited evenly."""
    shape = moments, height, width
    return {
        "steps": np.arange(moments),
        "visits": np.zeros(shape, np.int64),
        "bonus": np.zeros(shape, np.float32),
        "density": np.full(shape, 1 / (height * width), np.float32),
        "walls": np.zeros(shape[1:], bool),
        "room": np.zeros(shape[1:], np.int8),
        "first_entry": np.zeros(1, np.int64),
    }


@pytest.mark.parametrize("size", [(1, SIDE + 1, 2), (1, 2, SIDE + 1), (MOST_MAPS + 1, 2, 2)])
def test_more_than_a_page_can_show_is_refused(size: tuple[int, int, int], tmp_path: Path) -> None:
    Maps(**_wide(*(min(n, most) for n, most in zip(size, (MOST_MAPS, SIDE, SIDE), strict=True))))
    np.savez_compressed(tmp_path / "maps.npz", **_wide(*size))
    with pytest.raises(RunError, match="more than 64 rows or columns, or more than 1,000 moments"):
        Maps.load(tmp_path / "maps.npz")


def test_a_missing_file_says_how_to_have_one(tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match=r"there are no maps .*--maps\.interval .* lost its file, `bebold resume "
    ) as caught:
        Maps.load(tmp_path / "maps.npz")
    assert f"`bebold resume {tmp_path}`" in str(caught.value)


def test_a_moment_is_the_first_at_or_after_so_many_steps() -> None:
    maps = make_maps()
    assert [maps.at(steps) for steps in (0, 10, 11, 20, 40, 41)] == [0, 0, 1, 1, 2, None]


def test_entropies_of_rooms_are_scipys() -> None:
    maps = make_maps()
    expected = [
        [entropy(visits[maps.room == room], base=2) for room in range(maps.num_rooms)] for visits in maps.visits
    ]
    np.testing.assert_allclose(maps.entropies(), expected, rtol=1e-12)


def test_entropy_is_that_of_even_visits_at_most_and_unknown_where_nobody_was() -> None:
    room = np.array([[0, 0, -1, 1, 2], [0, 0, -1, 1, 2]], np.int8)
    visits = np.array([[3, 3, 99, 5, 0], [3, 3, 99, 0, 0]])
    np.testing.assert_array_equal(room_entropies(visits, room, 3), [2.0, 0.0, np.nan])
