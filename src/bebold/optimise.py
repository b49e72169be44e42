"""One optimiser step as every learner here takes it: gradients, agreement with the peers, clipping, descent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bebold.config import ICMConfig, RNDConfig
from bebold.errors import RunError


class NonFiniteLoss(RunError):
    """A loss became NaN or infinite; the parameters are as they were before the step."""


class Peers:
    """The workers that learn together. This one is alone; `bebold.parallel` knows the others."""

    rank = 0
    size = 1

    def average_(self, tensor: Tensor) -> None:
        """Replace `tensor` by its mean over the workers, in place."""

    def gather(self, tensor: Tensor) -> Tensor:
        """Concatenate the workers' tensors along dimension 0 in order of rank (lengths may differ)."""
        return tensor


class Optimiser:
    """Adam or RMSProp on one flat gradient buffer, averaged over the peers and clipped by its global norm.

    Parameters
    ----------
    parameters : the tensors to train; their gradients become views of one flat buffer
    algorithm : adam, or rmsprop without momentum, squared gradients averaged with `rms_decay`
    max_grad_norm : clip the global gradient norm to this value; None leaves it alone
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        learning_rate: float,
        algorithm: Literal["adam", "rmsprop"] = "adam",
        eps: float = 1e-8,
        rms_decay: float = 0.99,
        max_grad_norm: float | None = None,
        peers: Peers | None = None,
    ):
        self.parameters = list(parameters)
        self.max_grad_norm = max_grad_norm
        self.peers = peers or Peers()
        self.settings = {"lr": learning_rate, "eps": eps}
        self.descent: torch.optim.Optimizer
        if algorithm == "adam":
            self.averages: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
            self.descent = torch.optim.Adam(self.parameters, lr=learning_rate, eps=eps, fused=True)
        else:
            self.averages = ("square_avg",)
            self.settings["alpha"] = rms_decay
            self.descent = torch.optim.RMSprop(self.parameters, lr=learning_rate, eps=eps, alpha=rms_decay)
        first = self.parameters[0]
        size = sum(p.numel() for p in self.parameters)
        # One place more than the gradient, for the loss, so that all peers judge it alike.
        self.buffer = torch.zeros(size + 1, dtype=first.dtype, device=first.device)
        self.gradient = self.buffer[:size]
        offset = 0
        for parameter in self.parameters:
            view = self.gradient[offset : offset + parameter.numel()]
            parameter.grad = view.view_as(parameter)
            offset += parameter.numel()

    def scale_learning_rate(self, factor: float) -> None:
        """From now on, step `factor` times as far as the settings say."""
        for group in self.descent.param_groups:
            group["lr"] = factor * self.settings["lr"]

    def step(self, loss: Tensor) -> float:
        """Descend `loss` (a scalar) once; returns the gradient norm before clipping.

        Raises
        ------
        NonFiniteLoss : the loss or its gradient is not finite on any worker; nothing was changed
        """
        self.buffer.zero_()
        loss.backward()
        self.buffer[-1] = loss.detach()
        self.peers.average_(self.buffer)
        mean_loss, norm = self.buffer[-1].item(), self.gradient.norm().item()
        if not (math.isfinite(mean_loss) and math.isfinite(norm)):
            raise NonFiniteLoss(
                f"the loss is {mean_loss:g} and its gradient's norm {norm:g}; lower the learning rate or the reward "
                "scale in config.yaml and go on from the last checkpoint with `bebold resume`"
            )
        if self.max_grad_norm is not None and norm > self.max_grad_norm:
            self.gradient.mul_(self.max_grad_norm / (norm + 1e-6))
        self.descent.step()
        return norm

    def descend(self, losses: Iterable[tuple[Tensor, Mapping[str, Tensor]]]) -> dict[str, float]:
        """A step for each loss, which is asked for once the one before has been taken.

        Returns the means of their parts, and of the gradient norms as `losses/gradient_norm`.

        Raises
        ------
        NonFiniteLoss : as `step`
        """
        sums: dict[str, float] = {}
        count = 0
        for loss, parts in losses:
            stats: dict[str, Tensor | float] = {"losses/gradient_norm": self.step(loss), **parts}
            for name, value in stats.items():
                sums[name] = sums.get(name, 0.0) + float(value)
            count += 1
        return {name: total / count for name, total in sums.items()}

    def state_dict(self) -> dict[str, Any]:
        return self.descent.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the running averages of a state; the settings of today hold, not those of the day it was saved.

        Raises
        ------
        ValueError : they are of other parameters or of another algorithm; nothing has changed
        """
        saved = state["state"]
        if saved and sorted(saved) != list(range(len(self.parameters))):
            raise ValueError(f"the saved optimiser is not of {len(self.parameters)} parameters")
        # Neither names nor shapes are checked by PyTorch, and fused steps read what they are told to.
        for index, averages in saved.items():
            shape = self.parameters[index].shape
            shapes = {"step": torch.Size()} | dict.fromkeys(self.averages, shape)
            found = {name: x.shape for name, x in averages.items() if isinstance(x, Tensor) and x.is_floating_point()}
            if found != shapes:
                raise ValueError(
                    f"the saved optimiser's parameter {index} has {', '.join(map(str, averages))}, or other shapes, in "
                    f"place of {', '.join(shapes)} of shape {tuple(shape)}"
                )
        self.descent.load_state_dict({"state": saved, "param_groups": self.descent.state_dict()["param_groups"]})
        for group in self.descent.param_groups:
            group.update(self.settings)


def predictor_optimiser(
    parameters: Iterable[nn.Parameter], config: RNDConfig | ICMConfig, peers: Peers | None
) -> Optimiser:
    """Of a bonus's networks. RMSProp has the ε of BeBold's appendix, 0.01."""
    return Optimiser(
        parameters,
        learning_rate=config.learning_rate,
        algorithm=config.optimiser,
        eps=1e-8 if config.optimiser == "adam" else 0.01,
        max_grad_norm=config.max_grad_norm or None,
        peers=peers,
    )
