"""What an optimiser refuses to take up."""

import pytest
import torch
from torch import nn

from bebold.optimise import Optimiser


def make(algorithm="adam", sizes=(3, 4), **settings):
    parameters = [nn.Parameter(torch.ones(size)) for size in sizes]
    return Optimiser(parameters, learning_rate=0.1, algorithm=algorithm, **settings)


def stepped(**options):
    optimiser = make(**options)
    optimiser.step(sum(p.square().sum() for p in optimiser.parameters))
    return optimiser


@pytest.mark.parametrize("algorithm", ["adam", "rmsprop"])
def test_averages_are_taken_up_and_settings_are_those_of_today(algorithm):
    saved = stepped(algorithm=algorithm).state_dict()
    other = make(algorithm, eps=0.5)
    other.load_state_dict(saved)
    for index, averages in other.state_dict()["state"].items():
        for name, value in averages.items():
            assert torch.equal(value, saved["state"][index][name])
    assert other.descent.param_groups[0]["eps"] == 0.5
    saved["param_groups"][0] |= {"weight_decay": 9.0, "maximize": True}
    other.load_state_dict(saved)
    assert other.descent.param_groups[0]["weight_decay"] == 0 and not other.descent.param_groups[0]["maximize"]


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (lambda: stepped(algorithm="rmsprop"), "in place of step, exp_avg, exp_avg_sq"),
        (lambda: stepped(sizes=(3,)), "not of 2 parameters"),
        (lambda: stepped(sizes=(3, 5)), "parameter 1 has .* of shape \\(4,\\)"),
    ],
)
def test_other_averages_are_refused_and_change_nothing(saved, words):
    optimiser = stepped()
    before = optimiser.state_dict()["state"][0]["exp_avg"].clone()
    with pytest.raises(ValueError, match=words):
        optimiser.load_state_dict(saved().state_dict())
    assert torch.equal(optimiser.state_dict()["state"][0]["exp_avg"], before)


def test_a_state_before_the_first_step_is_empty():
    optimiser = stepped()
    optimiser.load_state_dict(make().state_dict())
    assert optimiser.state_dict()["state"] == {}
