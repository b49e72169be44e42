"""Random numbers of one's own from torch's global generator, which modules draw their first weights from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within it torch draws on the CPU as from this seed; afterwards it goes on as if nothing had been drawn.

    Generators of GPUs are neither read nor changed, which `torch.manual_seed` would do.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
