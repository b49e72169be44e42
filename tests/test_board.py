"""Workers that show each other things, as threads of one process: the board does not know the difference."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bebold.board import PLACE, Board

pytestmark = pytest.mark.skipif(not Board.supported(), reason="the order of writes is not known here")


def never():
    raise AssertionError("nobody is late")


@pytest.mark.parametrize("size", [2, 3])
def test_everybody_sees_what_everybody_showed_in_every_turn(size, tmp_path):
    turns = 300
    lengths = np.random.default_rng(0).integers(0, 5000, size=(turns, size))

    def shown(turn, rank):
        return np.random.default_rng((turn, rank)).integers(256, size=lengths[turn, rank], dtype=np.uint8)

    def take_part(rank):
        board = Board(tmp_path / "board", rank, size)
        for turn in range(turns):
            seen = board.exchange(shown(turn, rank), lambda: None, timeout=60)
            for other in range(size):
                assert np.array_equal(seen[other], shown(turn, other))
        return board.turn

    assert Board.create(tmp_path / "board", size)
    with ThreadPoolExecutor(size) as pool:
        assert list(pool.map(take_part, range(size))) == [turns] * size


def test_a_place_holds_as_much_as_it_says(tmp_path):
    assert Board.create(tmp_path / "board", 1)
    data = np.arange(PLACE, dtype=np.uint64).astype(np.uint8)
    (seen,) = Board(tmp_path / "board", 0, 1).exchange(data, never, timeout=1)
    assert np.array_equal(seen, data)


def test_one_who_never_comes_is_noticed(tmp_path):
    assert Board.create(tmp_path / "board", 2)
    with pytest.raises(TimeoutError, match="worker 1"):
        Board(tmp_path / "board", 0, 2).exchange(np.zeros(8, np.uint8), lambda: None, timeout=0.3)


def test_whoever_waits_asks_whether_it_is_worth_it(tmp_path):
    assert Board.create(tmp_path / "board", 2)

    def check():
        raise RuntimeError("worker 1 died")

    with pytest.raises(RuntimeError, match="worker 1 died"):
        Board(tmp_path / "board", 0, 2).exchange(np.zeros(8, np.uint8), check, timeout=60)


def test_without_memory_there_is_no_board(tmp_path):
    assert not Board.create(tmp_path / "no" / "folder", 2)
