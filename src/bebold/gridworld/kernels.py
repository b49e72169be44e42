"""The game itself: stepping, seeing, and the 64-bit key of the full state. One thread, no allocation."""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import (
    AGENT,
    BALL,
    BLUE,
    BOX,
    CLOSED,
    DIRECTION_X,
    DIRECTION_Y,
    DOOR,
    EMPTY_CELL,
    FRAME,
    GOAL,
    KEY,
    LAVA,
    LOCKED,
    OBSERVED_BITS,
    OPAQUE_BIT,
    OPEN,
    RED,
    VIEW,
)
from bebold.hashing import mix
from bebold.jit import jit

TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, DONE = range(7)
NUM_ACTIONS = 7


def _row_visibility_table() -> np.ndarray:
    """What one row of Farama's visibility pass does, for each (mask, clear) pair of 7-bit rows.

    `mask` says which cells of a row are seen before its pass, `clear` which let sight through. The entry,
    uint16 [128 * 128], holds the row's final mask (low 7 bits) and what it lights up in the next row (high
    7 bits).
    """
    cells = 1 << VIEW
    mask, clear = np.divmod(np.arange(cells * cells), cells)
    beyond = np.zeros_like(mask)
    for step, columns in ((1, range(VIEW - 1)), (-1, range(VIEW - 1, 0, -1))):
        for i in columns:
            lights = (mask & clear) >> i & 1
            mask |= lights << (i + step)
            beyond |= lights << i | lights << (i + step)
    return (mask | beyond << VIEW).astype(np.uint16)


ROW_VISIBILITY = _row_visibility_table()


@jit
def cell_hash(x, y, code):
    """One cell's share of the grid's hash; an empty cell has none."""
    if code == EMPTY_CELL:
        return np.uint64(0)
    return mix(np.uint64(code) | np.uint64(x) << np.uint64(32) | np.uint64(y) << np.uint64(48))


@jit
def set_cell(framed, grid_hash, b, x, y, code):
    """Write a cell of environment b and keep the grid's hash in step."""
    before = np.int64(framed[x, y])
    grid_hash[b] ^= cell_hash(x, y, before) ^ cell_hash(x, y, code)
    framed[x, y] = code


@jit
def hash_grids(mask, cells, grid_hash):
    """Hash the grids of the environments in `mask` afresh; later `set_cell` keeps the hashes in step."""
    for b in range(mask.shape[0]):
        if mask[b]:
            hashed = np.uint64(0)
            for x in range(FRAME, cells.shape[1] - FRAME):
                for y in range(FRAME, cells.shape[2] - FRAME):
                    hashed ^= cell_hash(x, y, np.int64(cells[b, x, y]))
            grid_hash[b] = hashed


@jit
def begin_episodes(mask, cells, carried, elapsed, returns, grid_hash):
    """Start the episodes of the environments that have just got a new level."""
    for b in range(mask.shape[0]):
        if mask[b]:
            carried[b] = 0
            elapsed[b] = 0
            returns[b] = 0.0
    hash_grids(mask, cells, grid_hash)


@jit
def first_invalid_action(actions, ignored):
    """Index of the first action outside 0..6 that will be played, or -1."""
    for b in range(actions.shape[0]):
        if not 0 <= actions[b] < NUM_ACTIONS and not ignored[b]:
            return b
    return -1


@jit
def step(
    actions,
    resetting,
    hits_obstacle,
    doors_in_order,
    reward_at,
    max_steps,
    cells,
    agent,
    carried,
    target,
    elapsed,
    returns,
    grid_hash,
    reward,
    terminated,
    truncated,
):
    """Play one action in every environment that is not `resetting`.

    `hits_obstacle` bool [B] marks agents that face something they must not walk into (Dynamic-Obstacles),
    `doors_in_order` selects the rule of RedBlueDoors, `reward_at` float64 is the reward of a success at
    each time, and episodes are cut off after `max_steps`. Writes `reward` float64 [B], `terminated` and
    `truncated` bool [B].
    """
    for b in range(actions.shape[0]):
        reward[b] = 0.0
        terminated[b] = False
        truncated[b] = False
        if resetting[b]:
            continue
        elapsed[b] += 1
        action = actions[b]
        framed = cells[b]
        x = agent[b, 0] + DIRECTION_X[agent[b, 2]]
        y = agent[b, 1] + DIRECTION_Y[agent[b, 2]]
        front = np.int64(framed[x + FRAME, y + FRAME])
        kind = front & 0xFF
        success = False
        if action == TURN_LEFT:
            agent[b, 2] = (agent[b, 2] + 3) & 3
        elif action == TURN_RIGHT:
            agent[b, 2] = (agent[b, 2] + 1) & 3
        elif action == FORWARD:
            if front == EMPTY_CELL or kind in (GOAL, LAVA) or (kind == DOOR and front & OPAQUE_BIT == 0):
                agent[b, 0] = x
                agent[b, 1] = y
            success = kind == GOAL
            terminated[b] = kind == LAVA
            if hits_obstacle[b]:
                reward[b] = -1.0
                terminated[b] = True
                success = False
        elif action == PICK_UP:
            if carried[b] == 0 and (kind in (KEY, BALL, BOX)):
                carried[b] = front
                set_cell(framed, grid_hash, b, x + FRAME, y + FRAME, EMPTY_CELL)
                success = front == np.int64(target[b])
        elif action == DROP:
            if carried[b] != 0 and front == EMPTY_CELL:
                set_cell(framed, grid_hash, b, x + FRAME, y + FRAME, np.int64(carried[b]))
                carried[b] = 0
        elif action == TOGGLE:
            if kind == BOX:
                set_cell(framed, grid_hash, b, x + FRAME, y + FRAME, _unpacked(front))
            elif kind == DOOR:
                toggled = _toggled_door(front, np.int64(carried[b]))
                if toggled != front:
                    set_cell(framed, grid_hash, b, x + FRAME, y + FRAME, toggled)
                    if doors_in_order and toggled == DOOR | BLUE << 8:
                        success = _red_door_is_open(framed)
                        terminated[b] = True
        if success:
            reward[b] = reward_at[elapsed[b]]
            terminated[b] = True
        returns[b] += reward[b]
        truncated[b] = elapsed[b] >= max_steps


@jit
def _unpacked(box):
    """What a broken box leaves behind."""
    contents = box >> 24 & 0xF
    return contents | (box >> 28 & 0x7) << 8 if contents else EMPTY_CELL


@jit
def _toggled_door(door, carried):
    """The door after a toggle: a locked one opens only to a key of its colour."""
    color = door & 0xFF00
    state = door >> 16 & 0xFF
    if state == OPEN:
        return DOOR | color | CLOSED << 16 | OPAQUE_BIT
    if state == LOCKED and carried != KEY | color:
        return door
    return DOOR | color


@jit
def _red_door_is_open(framed):
    for x in range(FRAME, framed.shape[0] - FRAME):
        for y in range(FRAME, framed.shape[1] - FRAME):
            if framed[x, y] == DOOR | RED << 8:
                return True
    return False


@jit
def observe(see_through, cells, agent, carried, grid_hash, image, direction, position, state_key):
    """Write what every agent sees: `image` uint8 [B, 7, 7, 3], `direction` int64 [B].

    Also `position` int64 [B, 2] and `state_key` uint64 [B], a hash of the grid with box contents, the agent's
    place and direction, and what it carries.
    """
    for b in range(agent.shape[0]):
        x, y, facing = agent[b, 0], agent[b, 1], agent[b, 2]
        direction[b] = facing
        position[b, 0] = x
        position[b, 1] = y
        place = np.uint64(carried[b]) | np.uint64(x << 44 | y << 34 | facing << 32)
        state_key[b] = mix(grid_hash[b] + mix(~place))
        _look(see_through, cells[b], x + FRAME, y + FRAME, facing, carried[b], image[b])


@jit
def _look(see_through, framed, x, y, facing, carried, image):
    """Write one view: rows from the agent's own (6) to the farthest (0), columns from left to right."""
    forward_x, forward_y = DIRECTION_X[facing], DIRECTION_Y[facing]
    mask = 1 << (VIEW // 2)
    for row in range(VIEW - 1, -1, -1):
        ahead = VIEW - 1 - row
        left_x = x + forward_x * ahead + forward_y * (VIEW // 2)
        left_y = y + forward_y * ahead - forward_x * (VIEW // 2)
        clear = 0
        for column in range(VIEW):
            code = framed[left_x - forward_y * column, left_y + forward_x * column]
            clear |= np.int64(code >> np.uint32(31) ^ np.uint32(1)) << column
        passed = np.int64(ROW_VISIBILITY[mask << VIEW | clear])
        seen = 127 if see_through else passed & 127
        mask = passed >> VIEW
        for column in range(VIEW):
            code = framed[left_x - forward_y * column, left_y + forward_x * column]
            shown = np.int64(code) if seen >> column & 1 else 0
            image[column, row, 0] = shown & 0xFF
            image[column, row, 1] = shown >> 8 & 0xFF
            image[column, row, 2] = shown >> 16 & 0xFF
    shown = np.int64(carried) if carried != 0 else EMPTY_CELL
    image[VIEW // 2, VIEW - 1, 0] = shown & 0xFF
    image[VIEW // 2, VIEW - 1, 1] = shown >> 8 & 0xFF
    image[VIEW // 2, VIEW - 1, 2] = shown >> 16 & 0xFF


@jit
def encode_grids(cells, agent, encoded):
    """Write the full grids with the agents in them, uint8 [B, W, H, 3], as Farama's FullyObsWrapper does."""
    for b in range(encoded.shape[0]):
        for x in range(encoded.shape[1]):
            for y in range(encoded.shape[2]):
                code = np.int64(cells[b, x + FRAME, y + FRAME]) & OBSERVED_BITS
                encoded[b, x, y, 0] = code & 0xFF
                encoded[b, x, y, 1] = code >> 8 & 0xFF
                encoded[b, x, y, 2] = code >> 16
        x, y = agent[b, 0], agent[b, 1]
        encoded[b, x, y, 0] = AGENT
        encoded[b, x, y, 1] = RED
        encoded[b, x, y, 2] = agent[b, 2]
