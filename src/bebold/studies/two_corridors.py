"""The paper's appendix: how often count-based Q-learning takes each of several corridors, as differential equations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from bebold.curves import new_figure, save, tidy
from bebold.jit import jit
from bebold.studies.corridor import LENGTHS
from bebold.tables import Table, write_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Count-based Q-learning between corridors: the appendix's equations"
STEP_SIZE = 0.01
"""α, the appendix's example."""
TWO = (40, 10)
"""The longest and the shortest of the paper's corridors."""
STEP_SIZES = (0.1, 0.01, 0.001)
RATIOS = ((40, 30), (20, 10), (40, 10), (400, 10))
"""Lengths of a long and a short corridor."""
SHOWN = (10, 100, 1_000, 10_000)
"""Passes in the tables."""
HORIZON = 10
"""In units of the appendix's estimate (ours; the largest shares come well before)."""
SEED = 11
PASSES = {False: 30_000, True: 1_000}
RUNS = {False: 100, True: 4}
"""Of the discrete process, whether it is a smoke test or not."""
CAPTION = (
    "below: solid, the equations; dotted and band, mean and 5 to 95 % of the simulated process; "
    "dashed, the equations' limit √T / Σ √T"
)
SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def phi(passes: int, step_size: float) -> np.ndarray:
    """φ(n) = α Σ_{i=1..n} (1 - α)^(n-i) / i for n = 0 to `passes`, float64 `[passes + 1]`; by its recursion."""
    values = np.zeros(passes + 1)
    for n in range(1, passes + 1):
        values[n] = (1 - step_size) * values[n - 1] + step_size / n
    return values


def flow(lengths: Sequence[int], step_size: float, passes: np.ndarray) -> np.ndarray:
    """x_j after so many `passes [P]` more, float64 `[P, K]`, from x_j(0) = 1: dx_j/dt = T_j φ(x_j) / Σ_k T_k φ(x_k).

    These are the appendix's equations for `K` corridors. Between whole numbers φ is a cubic spline.
    """
    smooth = _smooth_phi(int(passes[-1]) + 2, step_size)

    def slope(_: float, x: np.ndarray) -> np.ndarray:
        value = np.asarray(lengths) * smooth(x)
        return value / value.sum()

    solution = solve_ivp(
        slope, (0, passes[-1]), np.ones(len(lengths)), t_eval=passes, rtol=1e-8, atol=1e-8, method="LSODA"
    )
    return solution.y.T


def _smooth_phi(passes: int, step_size: float) -> CubicSpline:
    return CubicSpline(np.arange(passes + 1), phi(passes, step_size))


def peak_share(lengths: Sequence[int], step_size: float, passes: np.ndarray) -> float:
    """The last corridor's largest share of the next passes, dx/dt, at any of `passes [P]`."""
    values = np.asarray(lengths) * _smooth_phi(int(passes[-1]) + 2, step_size)(flow(lengths, step_size, passes))
    return float((values[:, -1] / values.sum(axis=1)).max())


def simulate(
    lengths: Sequence[int], step_size: float, passes: np.ndarray, *, runs: int, seed: int, difference: bool = False
) -> np.ndarray:
    """The process itself: passes of each corridor after so many `passes [P]` more, int64 `[runs, P, K]`.

    Each corridor has been passed once. Its Q is the moving average of the returns of its passes, from 0 on, and it is
    drawn with probability Q_j / Σ Q. The i-th pass of a corridor is paid T_j / i; with `difference` it is paid what
    BeBold's bonus without clipping adds up to along the way, 1 / i - 1 / (passes of all corridors so far).
    """
    uniforms = np.random.default_rng(seed).random((runs, int(passes[-1])))
    paid = np.ones(len(lengths)) if difference else np.asarray(lengths, np.float64)
    return np.stack([_passes(paid, step_size, difference, one)[passes] for one in uniforms])


@jit
def _passes(paid: Any, step_size: float, difference: bool, uniforms: Any) -> Any:
    """One run: int64 `[len(uniforms) + 1, K]`."""
    kinds = len(paid)
    # The first pass of a corridor is paid in full: only then Q is above 0, and what never was above 0 is never drawn.
    q = step_size * paid
    history = np.ones((len(uniforms) + 1, kinds), np.int64)
    for step, u in enumerate(uniforms):
        chosen = min(int((np.cumsum(q) < u * q.sum()).sum()), kinds - 1)
        history[step + 1] = history[step]
        history[step + 1, chosen] += 1
        start = 1.0 / history[step + 1].sum() if difference else 0.0
        q[chosen] += step_size * (paid[chosen] / history[step + 1, chosen] - start - q[chosen])
    return history


def limit_shares(lengths: Sequence[int]) -> np.ndarray:
    """Shares √T_j / Σ √T_k of the passes in the end, float64 `[K]`.

    Where φ(x) has become 1 / x, x_j dx_j/dt is T_j times a factor common to all, so that x_j² grows like T_j.
    """
    roots = np.sqrt(lengths)
    return roots / roots.sum()


def greedy_switch(ratio: float, step_size: float) -> float:
    """Passes x of the long corridor until φ(x) = φ(1) / ratio, where ratio = T_l / T_r > 1.

    Then an agent that always takes the larger Q first leaves it for the short corridor, passed once so far. The
    appendix's estimate is ratio / α.
    """
    most = int(4 * ratio / step_size) + 10
    smooth, peak = _smooth_phi(most, step_size), float(np.argmax(phi(most, step_size)))
    return float(brentq(lambda x: float(smooth(x)) - step_size / ratio, peak, most))


def run(folder: Path, *, smoke: bool, at_once: int, quiet: bool) -> None:
    """Write `tables.md` and `two_corridors.png`.

    Raises
    ------
    RunError : a file cannot be written
    """
    passes = np.union1d(np.geomspace(1, PASSES[smoke], 200).astype(int), [t for t in SHOWN if t <= PASSES[smoke]])
    simulated = {
        lengths: [_simulated_shares(lengths, passes, RUNS[smoke], bebold) for bebold in (False, True)]
        for lengths in (TWO, LENGTHS)
    }
    tables = [_shares_table(lengths, passes, *shares) for lengths, shares in simulated.items()]
    tables += [_peak_table(), _switch_table()]
    write_below(f"# {TITLE}\n", tables, folder / "tables.md")
    figure = new_figure(10.5, 7.8)
    panels = figure.subplots(2, 2)
    _draw_phi(panels[0, 0])
    _draw_switch(panels[0, 1])
    for panel, (lengths, shares) in zip(panels[1], simulated.items(), strict=True):
        _draw_shares(panel, lengths, passes, *shares)
    figure.supxlabel(CAPTION, fontsize="small")
    save(figure, folder / "two_corridors.png")


def _shares_table(lengths: Sequence[int], passes: np.ndarray, process: np.ndarray, bebold: np.ndarray) -> Table:
    """`process` and `bebold` are shares `[runs, P, K]`."""
    x = flow(lengths, STEP_SIZE, passes)
    mean, even = process.mean(axis=0), bebold.mean(axis=0)
    rows = []
    for i in np.flatnonzero(np.isin(passes, (*SHOWN, passes[-1]))):
        pairs = [f"{share:.3f} ({found:.3f})" for share, found in zip(x[i] / x[i].sum(), mean[i], strict=True)]
        rows.append([f"{passes[i]:,}", *pairs, f"{even[i, 0]:.3f}"])
    rows.append(["in the end", *(f"{share:.3f}" for share in limit_shares(lengths)), f"{1 / len(lengths):.3f}"])
    return Table(
        f"Corridors of {', '.join(map(str, lengths))} cells",
        f"Shares of the passes by the appendix's equations, α = {STEP_SIZE}, from one pass of each on; in brackets the "
        f"mean over {len(process)} runs of the simulated process. Last column: the same mean with BeBold's bonus, "
        "first corridor.",
        ["passes", *map(str, lengths), f"BeBold, {lengths[0]}"],
        rows,
        words=1,
    )


def _simulated_shares(lengths: Sequence[int], passes: np.ndarray, runs: int, difference: bool) -> np.ndarray:
    """float64 `[runs, P, K]`."""
    process = simulate(lengths, STEP_SIZE, passes, runs=runs, seed=SEED, difference=difference)
    return process / process.sum(axis=2, keepdims=True)


def _peak_table() -> Table:
    rows = []
    for lengths in RATIOS:
        cells = []
        for step_size in STEP_SIZES:
            most = HORIZON * lengths[0] / lengths[1] / step_size
            passes = np.unique(np.geomspace(1, most, 200).astype(int))
            cells.append(f"{peak_share(lengths, step_size, passes):.3f}")
        rows.append([f"{lengths[0]} : {lengths[1]}", *cells, f"{limit_shares(lengths)[1]:.3f}"])
    return Table(
        "The short corridor's largest share",
        f"Of the next passes, by the equations, over {HORIZON} times the passes T_l / (T_r α) after which the appendix "
        "expects it to be more than one half.",
        ["lengths", *(f"α = {step_size}" for step_size in STEP_SIZES), "in the end"],
        rows,
        words=1,
    )


def _switch_table() -> Table:
    rows = []
    for long, short in RATIOS:
        for step_size in STEP_SIZES:
            found, estimate = greedy_switch(long / short, step_size), long / short / step_size
            rows.append(
                [f"{long} : {short}", f"{step_size}", f"{estimate:,.0f}", f"{found:,.0f}", f"{found / estimate:.2f}"]
            )
    return Table(
        "When a greedy agent first leaves the long corridor",
        "Passes of the long corridor until its Q has fallen to that of the short one, which was passed once.",
        ["lengths", "α", "estimate T_l / (T_r α)", "φ(x) = α T_r / T_l at x", "ratio"],
        rows,
        words=2,
    )


def _draw_phi(panel: Axes) -> None:
    for step_size, colour in zip(STEP_SIZES, SHADES, strict=False):
        values = phi(100_000, step_size)
        n = np.unique(np.geomspace(1, 100_000, 300).astype(int))
        panel.loglog(n, values[n], color=colour, linewidth=2, label=f"α = {step_size}")
    panel.loglog(n, 1.0 / n, color="#444444", linestyle="--", linewidth=1.2, label="1 / n")
    panel.set_ylim(bottom=5e-6)
    panel.set(title="Q of a corridor per cell, φ(n)", xlabel="passes n of the corridor", ylabel="φ(n)")
    panel.legend(frameon=False, fontsize="small")
    tidy(panel)


def _draw_switch(panel: Axes) -> None:
    for (long, short), colour in zip(RATIOS, SHADES, strict=False):
        steps = np.geomspace(STEP_SIZES[-1], STEP_SIZES[0], 9)
        estimates = long / short / steps
        panel.loglog(estimates, [greedy_switch(long / short, step) for step in steps], "o-", color=colour, markersize=4)
        panel.lines[-1].set_label(f"lengths {long} and {short}")
    ends = np.array(panel.get_xlim())
    panel.loglog(ends, ends, color="#444444", linestyle="--", linewidth=1.2, label="the estimate")
    panel.set(
        title="A greedy agent's first switch",
        xlabel="estimate: long / (short · α), passes",
        ylabel="passes of the long corridor",
    )
    panel.legend(frameon=False, fontsize="small")
    tidy(panel)


def _draw_shares(
    panel: Axes, lengths: Sequence[int], passes: np.ndarray, process: np.ndarray, bebold: np.ndarray
) -> None:
    """`process` and `bebold` are shares `[runs, P, K]`."""
    x = flow(lengths, STEP_SIZE, passes)
    low, high = np.quantile(process, (0.05, 0.95), axis=0)
    for j, length in enumerate(lengths):
        if length in lengths[:j]:
            continue  # the equations treat equal corridors alike
        panel.fill_between(passes, low[:, j], high[:, j], color=SHADES[j], alpha=0.15, linewidth=0)
        panel.plot(passes, process[:, :, j].mean(axis=0), ":", color=SHADES[j], linewidth=2.5)
        panel.plot(passes, x[:, j] / x.sum(axis=1), color=SHADES[j], linewidth=1.5, label=f"{length} cells")
        panel.axhline(limit_shares(lengths)[j], color=SHADES[j], linestyle="--", linewidth=0.8)
    panel.plot(
        passes,
        bebold[:, :, 0].mean(axis=0),
        color="#000000",
        linestyle="-.",
        linewidth=1.2,
        label=f"BeBold, {lengths[0]} cells, simulated",
    )
    panel.set_xscale("log")
    panel.set(
        title=f"Corridors of {', '.join(map(str, lengths))} cells, α = {STEP_SIZE}", xlabel="passes of all corridors"
    )
    panel.set_ylabel("share of the passes")
    panel.set_ylim(0, 1)
    panel.legend(frameon=False, fontsize="small", ncols=2)
    tidy(panel)
