"""Weights are drawn from a seed, and nobody else notices."""

import torch

from bebold.seeded import seeded


def test_the_numbers_are_the_seeds_and_those_around_go_on(monkeypatch):
    def refuse(seed: int) -> None:
        raise AssertionError(f"the GPUs' generators were given the seed {seed}")

    torch.manual_seed(1)
    plain = torch.rand(3)
    torch.manual_seed(5)
    expected = torch.rand(2), torch.rand(2)
    torch.manual_seed(5)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "manual_seed_all", refuse)
        first = torch.rand(2)
        with seeded(1):
            within = torch.rand(3)
    assert torch.equal(within, plain)
    assert torch.equal(first, expected[0]) and torch.equal(torch.rand(2), expected[1])
