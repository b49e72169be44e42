"""What stands where in a MiniGrid view."""

from __future__ import annotations

from typing import Any

from bebold.errors import UsageError


def touched(image: Any) -> Any:
    """The cell in front of the agent and its own, `[..., 2, 3]` of views `[..., 7, 7, 3]`, arrays or tensors.

    In a MiniGrid view the agent stands in the middle of the last row, and its cell shows what it carries.

    Raises
    ------
    UsageError : these are no such views
    """
    shape = tuple(image.shape[-3:])
    if shape != (7, 7, 3):
        raise UsageError(
            f"contacts are two cells of a MiniGrid view, 7 x 7 x 3, and this image is {' x '.join(map(str, shape))}; "
            "choose the key observation, and the RND encoding codes"
        )
    return image[..., 3, 5:7, :]
