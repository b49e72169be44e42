"""Level generators, one module a family, each compiled only when a task of that family is made.

Every module has `generate(mask, parameters, cells, agent, target, obstacles, rng)`, which draws a new level
for each environment that `mask` selects:

- `mask` bool [B];
- `parameters` int64 [P]: the task's numbers, in the order its table row gives them;
- `cells` uint32 [B, W + 2 FRAME, H + 2 FRAME]: the grids, each in a frame of walls that is never written;
- `agent` int64 [B, 3]: x, y, direction;
- `target` uint32 [B]: the cell code of the object whose pickup is a success (0: none);
- `obstacles` int64 [B, N, 2]: positions of moving balls (N is 0 in most families);
- `rng` uint64 [B, 6]: the generators.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def level_module(family: str) -> ModuleType:
    """The module of a family of tasks, imported (and later compiled) on demand."""
    return importlib.import_module(f"{__name__}.{family}")
