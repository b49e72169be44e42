"""Settings of a run that takes seconds, for the tests of training."""

from bebold.config import (
    AMIGoConfig,
    EvaluationConfig,
    IntrinsicConfig,
    NetworkConfig,
    PPOConfig,
    TrainConfig,
)

SMALL = TrainConfig(
    task="KCS3R3",
    seed=3,
    total_steps=4000,
    num_envs=16,
    unroll=16,
    workers=1,
    device="cpu",
    checkpoint_interval=0.0,
    network=NetworkConfig(hidden=16, memory=16),
    # Decay would make a longer run differ from a shorter one from the start.
    ppo=PPOConfig(minibatches=2, learning_rate_decay="none", entropy_decay="none"),
    intrinsic=IntrinsicConfig(coefficient=0.1, coefficient_decay="none", amigo=AMIGoConfig(batch=5)),
    evaluation=EvaluationConfig(interval=1000, episodes=4),
)
