"""The appendix's equations against sums, closed forms and the process that they describe."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
import scipy.integrate

from bebold.cli import main
from bebold.studies import two_corridors as module
from bebold.studies.two_corridors import flow, greedy_switch, limit_shares, peak_share, phi, simulate


@pytest.mark.parametrize("step_size", [0.5, 0.1, 0.01])
def test_phi_is_the_papers_sum_and_an_integral(step_size: float) -> None:
    values = phi(50, step_size)
    keep = 1 - step_size
    for n in (0, 1, 2, 7, 50):
        literal = step_size * sum(keep ** (n - i) / i for i in range(1, n + 1))
        assert values[n] == pytest.approx(literal, rel=1e-12)
        # 1 / i is the integral of t^(i-1), and the sum over i is geometric.
        integral, _ = scipy.integrate.quad(lambda t, n=n: (keep**n - t**n) / (keep - t), 0, 1, points=[keep])
        assert values[n] == pytest.approx(step_size * integral, rel=1e-6, abs=1e-12)


def test_phi_is_one_over_n_in_the_end() -> None:
    n = 100_000
    assert phi(n, 0.01)[n] * n == pytest.approx(1, rel=0.01)


def test_the_flow_is_a_clock_and_keeps_symmetries() -> None:
    passes = np.array([0, 1, 10, 100, 1000])
    x = flow((40, 10, 30, 10), 0.05, passes)
    np.testing.assert_allclose(x.sum(axis=1), 4 + passes, rtol=1e-6)  # one pass of each, and one a unit of time
    np.testing.assert_allclose(x[:, 1], x[:, 3], rtol=1e-5)  # equal corridors
    assert (x[2:, 0] > x[2:, 2]).all() and (x[2:, 2] > x[2:, 1]).all()
    even = flow((7, 7), 0.05, passes)
    np.testing.assert_allclose(even[:, 0], even[:, 1], rtol=1e-6)


def test_the_flow_ends_at_the_roots_of_the_lengths() -> None:
    x = flow((40, 10), 0.1, np.array([0, 30_000]))[-1]
    np.testing.assert_allclose(x / x.sum(), limit_shares((40, 10)), atol=2e-3)
    np.testing.assert_allclose(limit_shares((40, 10)), [2 / 3, 1 / 3])


@pytest.mark.parametrize("lengths", [(40, 30), (40, 10)])
def test_the_equations_never_prefer_the_short_corridor(lengths: tuple[int, int]) -> None:
    """The appendix expects it from 13 and 40 passes of the long one on, here."""
    passes = np.arange(0, 2000, 2)
    x = flow(lengths, 0.1, passes)
    assert (np.diff(x[:, 0]) > 1.0).all()  # of 2


@pytest.mark.parametrize("lengths", module.RATIOS)
def test_the_largest_share_is_the_flows_steepest_rise(lengths: tuple[int, int]) -> None:
    passes = np.arange(0, 10 * lengths[0] * 10 // lengths[1], 1)
    rises = np.diff(flow(lengths, 0.1, passes)[:, 1])
    assert peak_share(lengths, 0.1, passes) == pytest.approx(rises.max(), abs=2e-3)
    assert rises.max() < 0.5  # the short corridor never gets one half


def test_the_process_follows_the_equations() -> None:
    passes = np.array([0, 30, 300, 3000])
    runs = simulate((40, 10), 0.1, passes, runs=300, seed=1)
    assert runs.shape == (300, 4, 2)
    assert (runs.sum(axis=2) == 2 + passes).all()
    x = flow((40, 10), 0.1, passes)
    error = runs[:, :, 0].std(axis=0, ddof=1) / np.sqrt(300)
    # The flow is the mean field: where many passes average, mean and flow meet within sampling error and 1 %.
    assert (abs(runs[:, :, 0].mean(axis=0) - x[:, 0]) < 4 * error + 0.01 * x[:, 0]).all()


@pytest.mark.parametrize("difference", [False, True])
def test_the_process_is_the_literal_one(difference: bool) -> None:
    (found,) = simulate((6, 2, 3), 0.2, np.arange(41), runs=1, seed=7, difference=difference)
    uniforms = np.random.default_rng(7).random((1, 40))[0]
    returns: list[list[float]] = [[1.0 if difference else length] for length in (6, 2, 3)]
    for step, u in enumerate(uniforms):
        assert found[step].tolist() == [len(paid) for paid in returns]
        q = [0.2 * sum(r * 0.8 ** (len(paid) - 1 - i) for i, r in enumerate(paid)) for paid in returns]
        chosen = next(j for j in range(3) if u * sum(q) <= sum(q[: j + 1]) or j == 2)
        i = len(returns[chosen]) + 1
        total = sum(map(len, returns)) + 1
        returns[chosen].append(1 / i - 1 / total if difference else (6, 2, 3)[chosen] / i)


def test_bebold_does_not_see_lengths() -> None:
    runs = simulate((40, 10, 30, 10), 0.01, np.array([0, 5000]), runs=50, seed=3, difference=True)[:, -1]
    np.testing.assert_allclose(runs.mean(axis=0) / 5004, 0.25, atol=0.01)


def test_a_greedy_agent_switches_where_it_first_would() -> None:
    """Counted out: passes of the long corridor, each paid, until its Q is at most that of the short one."""
    for long, short, step_size in ((40, 10, 0.1), (40, 30, 0.01)):
        q, i = 0.0, 0
        while True:
            i += 1
            q += step_size * (long / i - q)
            if i > 1 and q <= step_size * short:
                break
        assert i - 1 <= greedy_switch(long / short, step_size) <= i
    assert greedy_switch(100.0, 0.01) == pytest.approx(100 / 0.01, rel=0.02)  # the appendix's estimate


def test_the_smoke_run_writes_every_file(tmp_path: Path) -> None:
    assert main(["reproduce", "two-corridors", "--out", str(tmp_path), "--smoke", "--quiet"]) == 0
    folder = tmp_path / "two-corridors-smoke"
    assert {path.name for path in folder.iterdir()} == {"tables.md", "two_corridors.png"}
    text = (folder / "tables.md").read_text()
    assert text.startswith(f"# {module.TITLE}") and "| 400 : 10 | 0.01 |" in text
    assert all(f"\n| {passes} |" in text for passes in ("10", "100", "1,000"))
    assert imageio.imread(folder / "two_corridors.png").std() > 10
