"""Imports point upwards only, and light things stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bebold

PACKAGE = Path(bebold.__file__).parent

ROOMS = [
    {
        "errors",
        "config",
        "defaults",
        "rollout",
        "jit",
        "hashing",
        "products",
        "pointwise",
        "views",
        "encoding",
        "convolutions",
        "optimise",
        "guide",
        "seeded",
    },
    {"experiments"},
    {"gridworld"},
    {"envs"},
    {"methods"},
    {"gru", "lstm", "networks", "goal_networks", "published_networks", "architectures", "returns", "learners"},
    {"collect", "board", "parallel"},
    {"settings", "presets", "checkpoint", "maps", "events", "runs", "progress", "interrupts"},
    {"evaluation", "mapper", "trainer", "training", "judge", "video"},
    {"report", "groups", "tables", "curves", "aggregate", "record", "page", "bench"},
    {"demo", "plan", "sweep", "pretrained"},
    {"studies"},
    {"reproduce"},
    {"cli"},
    {"__main__"},
]
"""Each room may use itself and those before it."""

NEVER = {
    "gridworld": {"torch", "rollout", "optimise", "encoding", "guide"},
    "envs": {"torch", "rollout", "optimise", "encoding", "guide"},
    "methods": {"gridworld", "envs"},
    "experiments": {"torch", "gridworld", "errors", "jit", "rollout"},
    "gru": {"gridworld", "envs", "methods"},
    "lstm": {"gridworld", "envs", "methods"},
    "networks": {"gridworld", "envs", "methods"},
    "goal_networks": {"gridworld", "envs", "methods"},
    "architectures": {"gridworld", "envs", "methods"},
    "published_networks": {"gridworld", "envs", "methods"},
    "returns": {"gridworld", "envs", "methods"},
    "learners": {"gridworld", "envs", "methods"},
    "collect": {"optimise", "learners"},
    "config": {"torch", "numpy", "tyro"},
}
"""What a room must not know, though it stands below."""

LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


def imports() -> Iterator[tuple[Path, str, str]]:
    """(file, its room, what it imports): rooms of this package, or the first name of another."""
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} imports relatively"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] != "bebold":
                    yield path, room, parts[0]
                elif len(parts) > 1 and parts[1] in LEVEL:
                    yield path, room, parts[1]


def test_every_file_has_its_room_and_every_room_a_file() -> None:
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert found - {"__init__"} == set(LEVEL)
    assert set(NEVER) <= set(LEVEL)


def test_imports_point_upwards() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path, room, other in imports()
        if other in LEVEL and LEVEL[other] > LEVEL[room]
    ]
    assert wrong == []


def test_no_room_knows_what_it_should_not() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path, room, other in imports()
        if other in NEVER.get(room, ())
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "statement",
    [
        "import bebold",
        "import bebold.config",
        "import bebold.settings",
        "import bebold.gridworld.vector",
        "import bebold.envs",
        "import bebold.cli",
        "import gymnasium, bebold; gymnasium.make_vec('bebold/KCS3R3', num_envs=2)",
    ],
)
def test_loads_no_torch(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint('torch' in sys.modules, 'matplotlib' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False False\n"


def test_every_public_name_can_be_loaded() -> None:
    for name in bebold.__all__:
        assert getattr(bebold, name) is not None
    assert sorted(bebold._HOME) == [name for name in sorted(bebold.__all__) if name != "__version__"]
