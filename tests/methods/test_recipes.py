"""The table of methods is complete, cites, and builds."""

import subprocess
import sys
from dataclasses import replace
from typing import get_args

import pytest
import torch

from bebold.config import IntrinsicConfig, RNDConfig, TrainConfig
from bebold.errors import UsageError
from bebold.methods.build import NOVELTIES, Setting, build_guide, build_intrinsic
from bebold.methods.icm import ICMNovelty
from bebold.methods.recipes import RECIPES, Group
from bebold.methods.rnd import RNDNovelty

SHAPES = {"image": (7, 7, 3)}
GOALS = {"grid", "goal", "goal_age", "goal_grid"}
NEEDS = {
    "bebold": {"image"},
    "rnd": {"image"},
    "rnd-episodic": {"image"},
    "bebold-no-episodic": {"image"},
    "bebold-no-clip": {"image"},
    "bebold-averaged": {"image", "key"},
    "bebold-count": {"key"},
    "count": {"key"},
    "icm": {"image"},
    "ride": {"image"},
    "episodic": set(),
    "amigo": GOALS,
    "none": set(),
}


def column(*values, dtype=None):
    return torch.tensor(values, dtype=dtype)[:, None]


def test_every_method_stands_in_the_table():
    assert RECIPES.keys() == NEEDS.keys()
    assert TrainConfig().method in RECIPES
    assert len({(r.novelty, r.difference, r.restriction) for r in RECIPES.values()}) == len(RECIPES)


@pytest.mark.parametrize("method", [method for method in RECIPES if method != "amigo"])
def test_every_method_builds_says_what_it_needs_and_reports(view_rollout, method):
    intrinsic = build_intrinsic(method, obs_shapes=SHAPES, num_actions=7)
    assert intrinsic.needs == NEEDS[method]
    rollout = view_rollout(0)
    rollout.obs["key"] = torch.zeros(9, 6, dtype=torch.int64)
    bonus = intrinsic.reward(rollout)
    assert bonus.shape == (8, 6)
    assert bonus.dtype == torch.float32
    assert (bonus[~rollout.valid] == 0).all()
    assert bonus.any() == (method != "none")
    stats = intrinsic.update(rollout)
    assert all(isinstance(value, float) for value in stats.values())
    expected = {"intrinsic/reward_mean", "intrinsic/first_visit_fraction"}
    if NEEDS[method]:
        expected |= {"intrinsic/novelty_mean"}
    if method in ("icm", "ride"):
        expected |= {"intrinsic/forward_loss", "intrinsic/inverse_loss"}
    elif "image" in NEEDS[method]:
        expected |= {"intrinsic/predictor_loss"}
    elif NEEDS[method]:
        expected |= {"intrinsic/states_counted", "intrinsic/visits_uncounted"}
    assert stats.keys() == expected


def test_amigo_builds_says_what_it_needs_and_reports(rollout_of):
    intrinsic = build_intrinsic("amigo", obs_shapes=SHAPES | {"grid": (5, 4, 3)}, max_steps=100)
    assert intrinsic.needs == GOALS
    numbers = torch.zeros(9, 6, dtype=torch.int64)
    grid = torch.randint(4, (9, 6, 5, 4, 3), dtype=torch.uint8)
    rollout = rollout_of(grid=grid, goal=numbers, goal_age=numbers, goal_grid=grid)
    bonus = intrinsic.reward(rollout)
    assert bonus.shape == (8, 6) and bonus.dtype == torch.float32 and bonus.any()
    stats = intrinsic.update(rollout)
    assert all(isinstance(value, float) for value in stats.values())
    assert {"intrinsic/reward_mean", "intrinsic/goals_reached", "intrinsic/goal_threshold"} <= stats.keys()


@pytest.mark.parametrize("method", [method for method, needs in NEEDS.items() if needs])
def test_a_rollout_without_what_is_read_is_refused(rollout_of, method):
    shapes = SHAPES | {"grid": (5, 4, 3)}
    intrinsic = build_intrinsic(method, obs_shapes=shapes, num_actions=7, max_steps=100)
    missing = ", ".join(sorted(NEEDS[method]))
    with pytest.raises(UsageError, match=f"the rollout's obs lack {missing}, which this .* its `needs` name"):
        intrinsic.reward(rollout_of(counts=torch.ones(9, 6, dtype=torch.int32)))


@pytest.mark.parametrize("method", RECIPES)
def test_a_row_says_which_group_of_settings_it_reads(method):
    read = set()

    class Watched(IntrinsicConfig):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    recipe, shapes = RECIPES[method], SHAPES | {"grid": (5, 4, 3)}
    guide = build_guide(method, obs_shapes=shapes)
    NOVELTIES[recipe.novelty](Setting(Watched(), shapes, 7, 100, guide, "cpu", 0, None))
    assert read & set(get_args(Group)) == {recipe.reads} - {None}


def test_methods_differ_as_their_formulas_say(view_rollout):
    """At the start every RND error is 1, so that each bonus can be read off."""
    rollout = view_rollout(1)
    first = (rollout.episodic_count[1:] == 1).float()
    valid = rollout.valid.float()
    expected = {
        "bebold": 0.75 * first,
        "bebold-no-episodic": torch.full((8, 6), 0.75),
        "bebold-no-clip": 0.75 * first,
        "rnd": torch.ones(8, 6),
        "rnd-episodic": first,
        "episodic": first,
        "none": torch.zeros(8, 6),
    }
    for method, bonus in expected.items():
        intrinsic = build_intrinsic(method, IntrinsicConfig(alpha=0.25), obs_shapes=SHAPES)
        torch.testing.assert_close(intrinsic.reward(rollout), bonus * valid)


# One environment. o_0 to o_2 are the last of an episode, the step from o_2 only resets, o_3 to o_6 are of the next; o_5
# is a second visit, and novelty falls to o_6, which is a first.
STARTS = column(False, False, False, True, False, False, False)
COUNTS = column(3, 1, 1, 1, 1, 2, 1, dtype=torch.int32)
KEYS = column(1, 2, 3, 1, 2, 4, 5)
ERRORS = column(0.2, 0.6, 0.9, 0.5, 1.0, 0.8, 0.3)
"""What RND measures; of keys 1 and 2 the means are .35 and .8."""
SEEN_BEFORE = column(9, 2, 2, 2, *[4] * 8, 1)
"""Keys 2, 4 and 1 are counted 3, 8 times and once before; the very first observation is not."""
PHI = torch.tensor([[0, 0], [3, 4], [3, 4], [0, 0], [6, 8], [6, 0], [9, 4]], dtype=torch.uint8)
ACTIONS = column(3, 0, 0, 0, 0, 3)
"""An action a is expected to add (a, 0) to φ."""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("bebold", [0.5, 0.6, 0.0, 0.75, 0.0, 0.0]),
        ("bebold-no-clip", [0.5, 0.6, 0.0, 0.75, 0.0, -0.1]),
        ("bebold-no-episodic", [0.5, 0.6, 0.0, 0.75, 0.3, 0.0]),
        ("bebold-averaged", [0.8 - 0.175, 0.5, 0.0, 0.8 - 0.175, 0.0, 0.0]),
        ("rnd", [0.6, 0.9, 0.0, 1.0, 0.8, 0.3]),
        ("rnd-episodic", [0.6, 0.9, 0.0, 1.0, 0.0, 0.3]),
        # N of o_0 to o_6: 1, 4, 1, 2, 5, 9, 1
        ("bebold-count", [0.0, 1 - 0.5 / 4, 0.0, 0.0, 0.0, 1 - 0.5 / 9]),
        ("count", [0.5, 1.0, 0.0, 5**-0.5, 1 / 3, 1.0]),
        ("icm", [4.0, 0.0, 0.0, 10.0, 8.0, 4.0]),
        ("ride", [5.0, 0.0, 0.0, 10.0, 8.0 * 2**-0.5, 5.0]),
        ("episodic", [1.0, 1.0, 0.0, 1.0, 0.0, 1.0]),
        ("none", [0.0] * 6),
    ],
)
def test_the_bonus_of_each_method_by_hand(method, expected, rollout_of, monkeypatch):
    """What its networks say is given; AMIGo's is in test_amigo.py."""
    monkeypatch.setattr(RNDNovelty, "measure", lambda self, rollout: ERRORS)
    monkeypatch.setattr(ICMNovelty, "_embedded", lambda self, views: views[:, 0, 0, :2].float())
    expectation = lambda self, phi, action: phi + torch.stack((action, 0 * action), dim=-1)  # noqa: E731
    monkeypatch.setattr(ICMNovelty, "_foreseen", expectation)
    views = torch.zeros(7, 1, 7, 7, 3, dtype=torch.uint8)
    views[:, 0, 0, 0, :2] = PHI
    rollout = replace(rollout_of(starts=STARTS, counts=COUNTS, key=KEYS, image=views), action=ACTIONS)
    intrinsic = build_intrinsic(method, IntrinsicConfig(alpha=0.5), obs_shapes=SHAPES, num_actions=7)
    if "count" in method:
        intrinsic.update(rollout_of(key=SEEN_BEFORE))
    torch.testing.assert_close(intrinsic.reward(rollout), column(*expected))


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(UsageError, match="no method 'bebolt'; did you mean bebold"):
        build_intrinsic("bebolt", obs_shapes=SHAPES)
    with pytest.raises(UsageError, match=r"there is no method 'zzz'; choose one of bebold, rnd, .*, none"):
        build_intrinsic("zzz", obs_shapes=SHAPES)


def test_missing_observations_are_named():
    with pytest.raises(UsageError, match=r"reads 'image', and the environment shows vector: .* raw"):
        build_intrinsic("rnd", obs_shapes={"vector": (4,)})
    raw = IntrinsicConfig(rnd=RNDConfig(encoding="raw"))
    with pytest.raises(UsageError, match=r"reads 'vector', and the environment shows image"):
        build_intrinsic("rnd", raw, obs_shapes=SHAPES)
    assert build_intrinsic("rnd", raw, obs_shapes={"vector": (4,)}).needs == {"vector"}


def test_the_table_is_read_without_pytorch():
    code = "import sys, bebold.methods.recipes, bebold.methods.counts; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
