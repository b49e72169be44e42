"""What the presets say, against the numbers of the papers."""

import pytest

from bebold.cli import main
from bebold.config import TrainConfig
from bebold.errors import UsageError
from bebold.methods.recipes import RECIPES
from bebold.plan import read_sweep
from bebold.presets import preset
from bebold.settings import resolve, validate


def test_fast_is_the_default():
    config = TrainConfig(method="rnd", task="KCS4R3", total_steps=5_000_000)
    assert preset(method="rnd", task="KCS4R3") == config
    assert preset(task="MiniGrid-KeyCorridorS4R3-v0").total_steps == config.total_steps
    assert preset(task="MiniGrid-KeyCorridorS3R1-v0").total_steps == TrainConfig().total_steps
    assert preset(task="OMFull-v1").total_steps == preset(task="OMFull").total_steps == 24_000_000
    assert preset(task="MiniGrid-Dynamic-Obstacles-5x5-v0").total_steps == 500_000
    with pytest.raises(UsageError, match="there is no preset 'papr'; did you mean paper"):
        preset("papr")


def test_a_run_as_published_has_a_folder_of_its_own():
    assert preset("paper", method="ride").name == "ride-paper"


def test_amigo_learns_from_its_own_sum_unclamped():
    config = preset("paper", method="amigo")
    assert (config.intrinsic.coefficient, config.impala.extrinsic_scale, config.impala.reward_clip) == (1.0, 1.0, 0.0)
    assert (config.num_envs, config.impala.learning_rate, config.impala.entropy) == (8, 1e-3, 5e-4)
    teacher = config.intrinsic.amigo
    assert (teacher.batch, teacher.entropy, config.staggered) == (150, 0.01, False)


def test_ride_counts_full_states_and_bebold_observations():
    assert preset("paper", method="ride").intrinsic.key == "full_state"
    assert preset("paper").intrinsic.key == "observation" and preset("paper").intrinsic.alpha == 1.0


@pytest.mark.parametrize("method", RECIPES)
def test_every_method_has_settings_that_work(method):
    for task in ("MRN7S8", "KCS3R3", "OMFull"):
        for name in ("fast", "paper"):
            validate(resolve(preset(name, method=method, task=task)))


@pytest.mark.parametrize(
    ("method", "task", "coefficient", "entropy"),
    [  # BeBold's appendix, "Hyperparameters for MiniGrid"
        ("bebold", "KCS3R3", 0.1, 5e-4),
        ("bebold", "MRN6", 0.1, 5e-4),
        ("bebold", "OM2Dlhb", 0.05, 5e-4),
        ("ride", "KCS3R3", 0.1, 5e-4),
        ("ride", "MRN7S8", 0.5, 1e-3),
        ("ride", "OM2Dlh", 0.5, 1e-3),
        ("rnd", "MRN7S8", 0.1, 5e-4),
        ("icm", "OM2Dlh", 0.1, 5e-4),
    ],
)
def test_coefficients_of_the_appendix(method, task, coefficient, entropy):
    config = preset("paper", method=method, task=task)
    assert (config.intrinsic.coefficient, config.impala.entropy) == (coefficient, entropy)
    assert (config.learner, config.num_envs, config.unroll) == ("impala", 32, 100)
    assert (config.impala.learning_rate, config.impala.rms_eps) == (1e-4, 1e-5 if method == "bebold" else 0.01)


@pytest.mark.parametrize("method", RECIPES)
def test_what_all_published_settings_share(method):
    config = resolve(preset("paper", method=method))
    impala, intrinsic = config.impala, config.intrinsic
    assert (config.total_steps, config.policy_lag, config.staggered) == (120_000_000, 1, False)
    assert (impala.discount, impala.value_loss, impala.max_grad_norm, impala.extrinsic_scale) == (0.99, 0.5, 40.0, 1.0)
    assert (impala.learning_rate_decay, impala.bootstrap_timeouts) == ("linear", False)
    assert impala.reward_clip == (0.0 if method == "amigo" else 1.0)
    assert intrinsic.coefficient_decay == "none"


def test_networks_and_inputs_as_published():
    bebold, rnd, ride, icm = (preset("paper", method=method) for method in ("bebold", "rnd", "ride", "icm"))
    network = bebold.network
    assert (network.architecture, network.hidden, network.memory) == ("bebold", 1024, 1024)
    of = bebold.intrinsic.rnd
    assert (of.architecture, of.encoding, of.normalise_target, of.loss) == ("bebold", "integers", False, "norm")
    assert (of.optimiser, of.learning_rate, of.minibatches, of.epochs) == ("adam", 1e-4, 1, 1)
    assert {config.network.architecture for config in (rnd, ride, icm)} == {"ride"}
    of = rnd.intrinsic.rnd
    assert (of.architecture, of.encoding, of.outputs, of.normalise_target) == ("ride", "bytes", 128, False)
    # Losses are sums over the 100 steps of an unroll, ours means.
    assert (of.optimiser, of.learning_rate, of.loss_scale, of.max_grad_norm) == ("rmsprop", 1e-4, 10.0, 40.0)
    assert ride.intrinsic.icm == icm.intrinsic.icm
    of = icm.intrinsic.icm
    assert (of.architecture, of.encoding, of.outputs, of.model_hidden) == ("ride", "bytes", 128, 256)
    assert (of.forward_loss, of.inverse_loss) == (1000.0, 10.0)
    assert (of.optimiser, of.learning_rate, of.max_grad_norm, of.epochs) == ("rmsprop", 1e-4, 40.0, 1)


def test_the_command_line_starts_from_the_preset(capsys, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr("bebold.training.train", lambda config, **_: seen.append(config) or tmp_path)
    assert main(["train", "--preset", "paper", "--method", "ride", "--task", "OM2Dlh", "--unroll", "50"]) == 0
    assert main(["train", "--method", "rnd"]) == 0
    ride = preset("paper", method="ride", task="OM2Dlh")
    assert seen == [TrainConfig(**{**vars(ride), "unroll": 50}), preset(method="rnd")]
    assert main(["train", "--preset", "paper", "--task", "Nowhere"]) == 2
    assert "Nowhere" in capsys.readouterr().err
    assert main(["train", "--preset", "slow"]) == 2
    assert main(["train", "--task", "KCS4R3", "--preset=paper"]) == 0
    assert seen[-1] == preset("paper", task="KCS4R3")
    capsys.readouterr()
    assert main(["train", "--task"]) == 2
    assert "--task" in capsys.readouterr().err


def test_a_sweep_starts_from_the_preset(tmp_path):
    path = tmp_path / "runs.yaml"
    path.write_text("runs: [{preset: paper, method: ride, task: [KCS3R3, OM2Dlh], impala: {rms_eps: 1e-5}}]")
    first, second = read_sweep(path)
    assert (first.intrinsic.coefficient, second.intrinsic.coefficient) == (0.1, 0.5)
    assert first.network.architecture == "ride" and first.impala.rms_eps == 1e-5 and second.impala.entropy == 1e-3
    path.write_text("runs: [{preset: slow}]")
    with pytest.raises(UsageError, match=r"preset is 'slow'; choose one of fast, paper"):
        read_sweep(path)
