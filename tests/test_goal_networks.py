"""AMIGo's student against encoding every cell by itself and acting step by step."""

import numpy as np
import pytest
import torch
from torch import nn

from bebold import goal_networks, products
from bebold.config import NetworkConfig
from bebold.encoding import CellEmbedding
from bebold.goal_networks import GoalActorCritic, convolve_distinct, goal_cells


def make_policy(shape=(9, 7, 3), heads=1):
    torch.manual_seed(0)
    return GoalActorCritic(shape, 7, NetworkConfig(value_heads=heads))


def random_grids(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(high, shape, generator=generator) for high in (11, 6, 4)], dim=-1).byte()


def test_a_cell_is_the_vectors_of_its_object_colour_and_state():
    embedding, grid = CellEmbedding(), random_grids(2, 9, 7)
    encoded = embedding(grid)
    assert encoded.shape == (2, 9, 7, 10)
    for where in [(0, 0, 0), (1, 8, 6), (0, 4, 5), (1, 2, 3)]:
        kind, colour, state = grid[where].tolist()
        expected = torch.cat((embedding.objects[kind], embedding.colours[colour], embedding.states[state]))
        assert torch.equal(encoded[where], expected)


def plain_products(monkeypatch):
    """As on processors without bfloat16."""
    for module in (goal_networks, products):
        monkeypatch.setattr(module, "product", lambda x, weight, bias: x @ weight.t() + bias)


@pytest.mark.parametrize("size", [(5, 5), (7, 7), (9, 7), (25, 25)])
def test_outputs_are_those_of_the_plain_network(size, monkeypatch):
    plain_products(monkeypatch)
    policy = make_policy((*size, 3), heads=2)
    grid, goal = random_grids(3, 2, *size), torch.randint(size[0] * size[1], (3, 2))
    image = random_grids(3, 2, 7, 7, seed=1)
    starts = torch.zeros(3, 2, dtype=torch.bool)
    logits, value, state = policy.unroll({"grid": grid, "goal": goal, "image": image}, policy.initial_state(2), starts)
    assert (logits.shape, value.shape, state.shape) == ((3, 2, 7), (3, 2, 2), (2, 0))
    for t in range(3):
        for b in range(2):
            place = divmod(int(goal[t, b]), size[1])
            mark = torch.zeros(*size, 1)
            mark[place] = 1
            x = torch.cat((policy.embedding(grid[t, b]), mark), dim=-1).permute(2, 0, 1)[None]
            layers = [layer for layer in policy.convolutions if isinstance(layer, nn.Conv2d)]
            assert [layer.out_channels for layer in layers] == [32] * 5
            for layer in layers:
                x = nn.functional.elu(nn.functional.conv2d(x, layer.weight, layer.bias, stride=2, padding=1))
            held = policy.embedding(image[t, b, 3, 6])[None]
            x = nn.functional.elu(policy.first(torch.cat((x.flatten(1), held), dim=1)))
            x = policy.head(nn.functional.elu(policy.second(x)))[0]
            torch.testing.assert_close(torch.cat((logits[t, b], value[t, b])), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(5, 5), (8, 7), (25, 25)])
def test_each_layer_and_its_gradients_are_those_of_a_convolution(size):
    policy, grid, goal = make_policy((*size, 3)), random_grids(6, *size), torch.randint(size[0] * size[1], (6,))
    grid[3:, :, : size[1] // 2] = grid[:3, :, : size[1] // 2]  # so that later layers have equal patches too
    layers = [layer for layer in policy.convolutions if isinstance(layer, nn.Conv2d)]
    marks = nn.functional.one_hot(goal, size[0] * size[1]).view(6, *size, 1)
    for depth in range(1, 6):
        x = torch.cat((policy.embedding(grid), marks), dim=-1).permute(0, 3, 1, 2)
        plain = policy.convolutions[: 2 * depth](x)
        ours = convolve_distinct(*goal_cells(grid, goal, policy.embedding.table()), layers[:depth])
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
        parts = [*policy.embedding.parameters(), *policy.convolutions[: 2 * depth].parameters()]
        pull = torch.randn(plain.shape)
        for a, b in zip(torch.autograd.grad(ours, parts, pull), torch.autograd.grad(plain, parts, pull), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    scattered = grid.transpose(1, 2).contiguous().transpose(1, 2)  # other strides, equal numbers
    assert torch.equal(convolve_distinct(*goal_cells(scattered, goal, policy.embedding.table()), layers), ours)


def test_equal_patches_are_multiplied_once(monkeypatch):
    multiplied, addmm = [], torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda bias, x, weight: multiplied.append(len(x)) or addmm(bias, x, weight))
    monkeypatch.setattr(goal_networks, "round_up", lambda index: index)
    layers = [nn.Conv2d(1, 1, 3, stride=2, padding=1), nn.Conv2d(1, 1, 3, stride=2, padding=1)]
    cells = torch.zeros(4, 9, 9, dtype=torch.int32)
    cells[2:, 3, 4] = 1
    convolve_distinct(cells, torch.tensor([[0.5], [2.0]]), layers)
    # Four corners, four edges, the middle; and with the mark, which two patches see in either layer, two more.
    assert multiplied == [9 + 2, 9 + 2]


def test_what_is_kept_while_weights_stay_is_what_would_be_computed(monkeypatch):
    """Four looks at grids that mostly stay, the last after it was all forgotten; then with other weights."""
    plain_products(monkeypatch)
    policy, grid = make_policy((9, 7, 3)), random_grids(8, 9, 7)
    image, generator = random_grids(8, 7, 7, seed=1), torch.Generator().manual_seed(3)
    multiplied, addmm = [], torch.addmm

    def look():
        goal = torch.randint(63, (8,), generator=generator)
        obs = {"grid": grid.clone(), "goal": goal, "image": image}
        state, starts = policy.initial_state(8), torch.zeros(8, dtype=torch.bool)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "addmm", lambda bias, x, weight: multiplied.append(len(x)) or addmm(bias, x, weight))
            kept = policy.act(obs, state, starts, greedy=True)
        logits, value, _ = policy.unroll({name: x[None] for name, x in obs.items()}, state, starts[None])
        expected = logits[0].detach(), value[0].detach()  # with gradients nothing is kept
        torch.testing.assert_close((kept.logits, kept.value), expected, rtol=1e-5, atol=1e-6)

    with policy.unchanged():
        known = policy._known
        look()
        first = sum(multiplied)
        multiplied.clear()
        grid[:, 4, 3] = grid[:, 2, 2]
        look()
        assert 0 < sum(multiplied) < first
        with_room = known[0].rows
        grid[:, 6, 5] = grid[:, 2, 2]
        look()
        assert known[0].rows is with_room, "there was room for the new ones"
        assert policy._known is known
        monkeypatch.setattr(goal_networks, "MOST", 10)
        look()
        assert policy._known is not known
    with torch.no_grad():
        policy.convolutions[0].weight.mul_(2)
    look()
    with policy.unchanged():
        look()


def test_numbers_of_patches_go_on_as_the_table_grows():
    generator = torch.Generator().manual_seed(4)
    cells = torch.randint(3, (60, 5, 5), generator=generator, dtype=torch.int32)
    patches, numbers = goal_networks.Patches().number(cells.numpy())
    known = goal_networks.Patches()
    parts = [known.number(part.numpy()) for part in cells.split(7)]
    np.testing.assert_array_equal(np.concatenate([new for new, _ in parts]), patches)
    np.testing.assert_array_equal(np.concatenate([of for _, of in parts]), numbers)
    assert len(np.unique(patches, axis=0)) == len(patches) == known.count > 200
    padded = np.pad(cells.numpy() + 1, ((0, 0), (1, 1), (1, 1)))
    for n, i, j in np.ndindex(numbers.shape):
        np.testing.assert_array_equal(
            patches[numbers[n, i, j]], padded[n, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].ravel()
        )


def test_gradients_are_those_of_seeing_every_input():
    policy, generator = make_policy(), torch.Generator().manual_seed(2)
    pick = torch.randint(5, (40, 3), generator=generator)  # 120 inputs of 5 kinds, so padding and repeats
    grid, goal = random_grids(5, 9, 7)[pick], torch.randint(63, (5,), generator=generator)[pick]
    image = random_grids(5, 7, 7, seed=1)[pick]
    logits, value, _ = policy.unroll(
        {"grid": grid, "goal": goal, "image": image}, policy.initial_state(3), torch.zeros(40, 3)
    )
    load = image[..., 3, 6, :].flatten(0, 1)
    every = policy.head(policy.features(grid.flatten(0, 1), goal.flatten(), load))
    parts, pull = list(policy.parameters()), torch.randn(120, 8, generator=generator)
    ours = torch.cat((logits, value), dim=-1).flatten(0, 1)
    torch.testing.assert_close(ours, every, rtol=1e-4, atol=1e-5)
    for a, b in zip(torch.autograd.grad(ours, parts, pull), torch.autograd.grad(every, parts, pull), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2 * float(b.abs().max()))  # bfloat16 products


def test_equal_inputs_are_seen_once(monkeypatch):
    policy, grid = make_policy(), random_grids(1, 2, 9, 7).repeat(5, 1, 1, 1, 1)
    goal = torch.tensor([[3, 5]] * 4 + [[3, 6]])
    image = random_grids(1, 2, 7, 7, seed=1).repeat(5, 1, 1, 1, 1)
    image[1, 0, 3, 6] = 1 + image[1, 0, 3, 6]  # another load
    sizes, features = [], policy.features
    monkeypatch.setattr(policy, "features", lambda *parts: sizes.append(len(parts[0])) or features(*parts))
    monkeypatch.setattr(goal_networks, "round_up", lambda index: index)
    logits, *_ = policy.unroll({"grid": grid, "goal": goal, "image": image}, policy.initial_state(2), torch.zeros(5, 2))
    assert sizes == [4]  # of two environments; once with another goal, once with another load
    assert torch.equal(logits[0], logits[2])
    assert not torch.isclose(logits[0, 0], logits[1, 0]).all() and not torch.isclose(logits[0, 1], logits[4, 1]).all()


def test_codes_of_no_cell_are_refused():
    policy = make_policy((5, 5, 3))
    grid = torch.full((1, 5, 5, 3), 255, dtype=torch.uint8)
    with pytest.raises(ValueError, match="beyond those of MiniGrid"):
        goal_cells(grid, torch.zeros(1, dtype=torch.int64), policy.embedding.table())


def test_acting_step_by_step_is_unrolling():
    policy = make_policy(heads=2)
    grid, goal = random_grids(6, 4, 9, 7), torch.randint(63, (6, 4))
    starts = torch.rand(6, 4, generator=torch.Generator().manual_seed(3)) < 0.3
    obs = {"grid": grid, "goal": goal, "image": random_grids(6, 4, 7, 7, seed=1)}
    with torch.no_grad():
        logits, value, _ = policy.unroll(obs, policy.initial_state(4), starts)
    for t in range(6):
        shown = {name: x[t] for name, x in obs.items()} | {"direction": None}
        step = policy.act(shown, policy.initial_state(4), starts[t], greedy=True)
        torch.testing.assert_close(step.logits, logits[t], rtol=2e-2, atol=2e-3)  # bfloat16 products
        torch.testing.assert_close(step.value, value[t], rtol=2e-2, atol=2e-3)
        assert torch.equal(step.action, step.logits.argmax(dim=-1))
        assert step.state.shape == (4, 0)


def test_a_learner_trains_all_but_the_guide():
    policy = make_policy()
    own = list(policy.own_parameters())
    assert len(own) == len(list(policy.parameters())) == 3 + 10 + 4 + 2
    policy.guide = nn.Linear(2, 2)
    assert all(a is b for a, b in zip(policy.own_parameters(), own, strict=True))
    assert "guide.weight" in policy.state_dict()
