"""Maps of a run on one level: counted like a plain loop over Farama's environment, and kept through interruptions."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import small
import torch

from bebold.config import EvaluationConfig, MapsConfig
from bebold.errors import RunError
from bebold.gridworld.layout import layout
from bebold.gridworld.tasks import find_task, make_farama
from bebold.mapper import Mapper
from bebold.maps import FILE, Maps
from bebold.parallel import Workers
from bebold.settings import resolve
from bebold.trainer import Trainer
from bebold.training import resume, train

LEVEL = 7
SMALL = replace(
    small.SMALL,
    task="MiniGrid-MultiRoom-N2-S4-v0",
    total_steps=3000,
    fixed_level=LEVEL,
    maps=MapsConfig(interval=500, steps=90),
    ppo=replace(small.SMALL.ppo, extrinsic_scale=0.0),
    evaluation=EvaluationConfig(interval=0),
)


def metrics(folder: Path) -> list[dict[str, float]]:
    """All records, without what the clock decides."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in r.items() if not k.startswith(("time/", "charts/steps_per"))} for r in records]


def assert_equal(one: Maps, other: Maps) -> None:
    for field in fields(Maps):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(SMALL, root=tmp_path_factory.mktemp("whole"), quiet=True)


def test_visits_and_first_entries_are_those_of_a_plain_loop_over_farama() -> None:
    trainer = Trainer(resolve(replace(SMALL, maps=MapsConfig(interval=10**9))), Workers())
    (mapper,) = trainer.observers
    assert isinstance(mapper, Mapper)
    rollouts = []
    for _ in range(8):
        rollouts.append(trainer.pipeline.next(trainer.policy))
        mapper.observe(rollouts[-1], sum(int(r.valid.sum()) for r in rollouts[:-1]))
    envs = [make_farama(find_task(SMALL.task)).unwrapped for _ in range(SMALL.num_envs)]
    for env in envs:
        env.reset(seed=LEVEL)
    resets = [False] * len(envs)
    visits: dict[tuple[int, int], int] = defaultdict(int)
    entered: dict[int, int] = {0: 0}
    rooms = [(room.top, room.size) for room in envs[0].rooms]
    steps = 0
    for rollout in rollouts:
        for t in range(rollout.num_steps):
            inside = set()
            for b, env in enumerate(envs):
                if resets[b]:
                    env.reset(seed=LEVEL)
                    resets[b] = False
                else:
                    _, _, terminated, truncated, _ = env.step(int(rollout.action[t, b]))
                    resets[b] = terminated or truncated
                    steps += 1
                    x, y = map(int, env.agent_pos)
                    visits[x, y] += 1
                    for index, ((left, top), (width, height)) in enumerate(rooms):
                        if left < x < left + width - 1 and top < y < top + height - 1:
                            inside.add(index)
            for index in inside:
                entered.setdefault(index, steps)
    counted = mapper.visits.numpy()
    assert {(x, y): n for (y, x), n in np.ndenumerate(counted) if n} == visits
    assert mapper.first_entry.tolist() == [entered.get(index, -1) for index in range(len(rooms))]
    assert entered[1] > SMALL.num_envs * SMALL.unroll  # not in the first rollout, nor never


def test_every_episode_begins_as_farama_resets_this_level() -> None:
    trainer = Trainer(resolve(SMALL), Workers())
    env = make_farama(find_task(SMALL.task))
    view, _ = env.reset(seed=LEVEL)
    begun = 0
    for _ in range(6):
        rollout = trainer.pipeline.next(trainer.policy)
        first = rollout.obs["image"][rollout.starts]
        assert all(np.array_equal(image, view["image"]) for image in first)
        begun += len(first)
    assert begun > 2 * SMALL.num_envs


def test_the_maps_add_up(uninterrupted: Path) -> None:
    maps = Maps.load(uninterrupted / FILE)
    steps = [record["steps"] for record in metrics(uninterrupted)]
    due = [min(s for s in steps if s >= nominal) for nominal in range(500, 3001, 500)]
    assert maps.steps.tolist() == due
    np.testing.assert_array_equal(maps.visits.sum(axis=(1, 2)), maps.steps)
    assert (np.diff(maps.visits, axis=0) >= 0).all()
    np.testing.assert_array_equal(np.isnan(maps.bonus), maps.density == 0)
    assert not maps.visits[:, maps.walls].any() and not maps.density[:, maps.walls].any()
    level = layout(SMALL.task, LEVEL)
    np.testing.assert_array_equal(maps.walls, level.walls)
    np.testing.assert_array_equal(maps.room, level.room)


def test_bonus_and_density_are_those_of_the_policys_own_steps() -> None:
    trainer = Trainer(resolve(SMALL), Workers())
    played = []

    def sample(steps: int, *, seed: int):
        played.append(trainer.sample(steps, seed=seed))
        return played[-1]

    level = layout(SMALL.task, LEVEL)
    mapper = Mapper(level, sample, interval=1, sample_steps=SMALL.maps.steps, seed=SMALL.seed)
    for _ in range(3):
        trainer.update()
        mapper.observe(trainer.pipeline.next(trainer.policy), trainer.steps)
    maps = mapper.maps()
    assert len(maps.steps) == len(played) == 3
    for index, (rollout, bonus) in enumerate(played):
        assert rollout.action.shape == bonus.shape == (40, 3)  # an episode's limit, and as often as it takes
        paid: dict[tuple[int, int], list[float]] = defaultdict(list)
        for t, b in np.ndindex(*bonus.shape):
            if rollout.valid[t, b]:
                x, y = rollout.obs["agent_pos"][t + 1, b].tolist()
                paid[y, x].append(float(bonus[t, b]))
        total = sum(map(len, paid.values()))
        assert total == rollout.action.numel() - int(rollout.starts[1:].sum())
        for place, bonus_there in np.ndenumerate(maps.bonus[index]):
            if place in paid:
                assert bonus_there == pytest.approx(np.mean(paid[place]), rel=1e-5)
                assert maps.density[index][place] == pytest.approx(len(paid[place]) / total, rel=1e-5)
            else:
                assert np.isnan(bonus_there) and maps.density[index][place] == 0
        assert max(max(values) for values in paid.values()) > 0


def test_a_sample_repeats_itself_and_differs_with_its_seed() -> None:
    trainer = Trainer(resolve(SMALL), Workers())
    one, again, other = (trainer.sample(30, seed=seed)[0].action for seed in (1, 1, 2))
    assert one.shape == (30, 1)  # no longer than what was asked for
    assert torch.equal(one, again) and not torch.equal(one, other)


@pytest.mark.parametrize(("workers", "lag"), [(1, 0), (1, 1), (2, 0)])
def test_a_resumed_run_has_the_maps_of_an_uninterrupted_one(workers: int, lag: int, tmp_path: Path) -> None:
    config = replace(SMALL, workers=workers, policy_lag=lag, total_steps=1100)
    whole = train(config, root=tmp_path / "whole", quiet=True)
    half = train(replace(config, total_steps=700), root=tmp_path / "half", quiet=True)
    early = Maps.load(half / FILE)
    resume(half, total_steps=config.total_steps, quiet=True)
    one, other = Maps.load(half / FILE), Maps.load(whole / FILE)
    assert len(early.steps) == 1 and len(one.steps) == 2
    assert_equal(one, other)
    np.testing.assert_array_equal(one.visits.sum(axis=(1, 2)), one.steps)
    assert metrics(half) == metrics(whole)


def test_training_does_not_notice_that_it_is_watched(uninterrupted: Path, tmp_path: Path) -> None:
    unwatched = train(replace(SMALL, maps=MapsConfig()), root=tmp_path, quiet=True)
    assert not (unwatched / FILE).exists()
    assert metrics(unwatched) == metrics(uninterrupted)
    assert '"time/observe"' not in (unwatched / "metrics.jsonl").read_text()


def test_without_an_extrinsic_scale_the_reward_changes_nothing() -> None:
    def learnt(reward: float) -> torch.Tensor:
        trainer = Trainer(resolve(SMALL), Workers())
        rollout = trainer.pipeline.next(trainer.policy)
        rollout = replace(rollout, reward=torch.full_like(rollout.reward, reward))
        trainer.learner.update(rollout, torch.ones_like(rollout.reward), progress=0.0)
        return torch.cat([p.detach().flatten() for p in trainer.policy.parameters()])

    assert torch.equal(learnt(0.0), learnt(7.0))


def test_maps_of_another_level_are_refused(tmp_path: Path) -> None:
    folder = train(replace(SMALL, total_steps=600), root=tmp_path, quiet=True)
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("task: MiniGrid-MultiRoom-N2-S4-v0", "task: MRN6"))
    with pytest.raises(RunError, match="does not belong to these settings"):
        resume(folder, total_steps=1200, quiet=True)


def test_maps_of_another_level_of_the_same_task_are_refused(tmp_path: Path) -> None:
    folder = train(replace(SMALL, total_steps=600), root=tmp_path, quiet=True)
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace(f"fixed_level: {LEVEL}", f"fixed_level: {LEVEL + 1}"))
    with pytest.raises(RunError, match=r"\(its maps are of another level\); restore config\.yaml") as caught:
        resume(folder, total_steps=1200, quiet=True)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("before", "after"), [(500, 0), (0, 500)])
def test_maps_are_not_switched_on_or_off_on_the_way(before: int, after: int) -> None:
    one, other = (Trainer(resolve(replace(SMALL, maps=MapsConfig(interval=n))), Workers()) for n in (before, after))
    state = one.state()
    assert state is not None
    one.restore(state)
    with pytest.raises(
        RunError, match=r"\(it was saved with other maps, or without: leave maps\.interval as it was\);"
    ):
        other.restore(state)


def test_a_finished_run_that_is_resumed_writes_lost_maps_anew(tmp_path: Path) -> None:
    folder = train(replace(SMALL, total_steps=600), root=tmp_path, quiet=True)
    maps = Maps.load(folder / FILE)
    (folder / FILE).unlink()
    resume(folder, quiet=True)
    assert len(maps.steps) == 1
    assert_equal(Maps.load(folder / FILE), maps)


def test_a_state_that_does_not_fit_is_refused() -> None:
    def mapper(task: str, level: int = LEVEL) -> Mapper:
        return Mapper(layout(task, level), None, interval=1, sample_steps=1, seed=0)  # type: ignore[arg-type]

    state = mapper("MiniGrid-MultiRoom-N2-S4-v0").state_dict()
    for other in (mapper("MRN6"), mapper("MiniGrid-MultiRoom-N2-S4-v0", LEVEL + 1)):
        with pytest.raises(ValueError, match="another level"):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match="other first_entry"):
        mapper("MiniGrid-MultiRoom-N2-S4-v0").load_state_dict(state | {"first_entry": torch.zeros(3).long()})
    state["taken"]["steps"] = torch.ones(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="entries along K"):
        mapper("MiniGrid-MultiRoom-N2-S4-v0").load_state_dict(state)
