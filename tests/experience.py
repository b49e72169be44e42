"""Random experience with ends of both kinds, and a small policy, for the tests of learners."""

import torch

from bebold.config import NetworkConfig
from bebold.networks import ActorCritic
from bebold.rollout import Rollout

T, B, A = 5, 4, 7


def make_policy(heads=1):
    torch.manual_seed(0)
    return ActorCritic((7, 7, 3), A, NetworkConfig(hidden=8, memory=8, value_heads=heads))


def make_rollout(heads=1, seed=0):
    """Random experience: environment 1 ends by success at step 1, environment 2 by time-out at step 3."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    terminated, truncated = torch.zeros(T, B, dtype=torch.bool), torch.zeros(T, B, dtype=torch.bool)
    starts = torch.zeros(T + 1, B, dtype=torch.bool)
    terminated[1, 1] = truncated[3, 2] = True
    starts[3, 1] = starts[5, 2] = True
    image = torch.randint(0, 4, (T + 1, B, 7, 7, 3), generator=generator, dtype=torch.uint8)
    logits = normal(T, B, A)
    action = torch.randint(0, A, (T, B), generator=generator)
    return Rollout(
        obs={"image": image},
        action=action,
        reward=terminated.float(),
        terminated=terminated,
        truncated=truncated,
        starts=starts,
        episodic_count=torch.ones(T + 1, B, dtype=torch.int32),
        log_prob=logits.log_softmax(-1).gather(-1, action[..., None])[..., 0],
        value=normal(T + 1, B, heads),
        state=normal(B, 8),
    )
