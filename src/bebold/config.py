"""All settings, as frozen dataclasses. Each default says where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Key = Literal["observation", "full_state", "position", "pose", "contact", "discretised"]
Architecture = Literal["mlp-gru", "amigo", "bebold", "ride"]
Preset = Literal["fast", "paper"]
Encoding = Literal["onehot", "contact", "shapes", "codes", "integers", "bytes", "raw"]
MOST_MAPS = 1000
"""Most moments of a run at which maps are made: a page holds the values of each, and a slider has no more places."""


@dataclass(frozen=True)
class NetworkConfig:
    """The actor-critic. `mlp-gru`: two dense layers on the one-hot view, a GRU with a skip connection, linear heads."""

    architecture: Architecture | None = None
    """mlp-gru: ours. amigo: AMIGo's student on the whole grid, of fixed size. bebold, ride: convolutions and an LSTM as
    in these papers. None takes the method's own."""
    hidden: int = 128
    """Width of the two dense layers (ours: small enough for two cores)."""
    memory: int = 128
    """Width of the GRU (ours: small enough for two cores), or of the LSTM."""
    value_heads: Literal[1, 2] = 1
    """1: one value of the summed reward (BeBold). 2: extrinsic and intrinsic apart, both cut at the episode's end."""


@dataclass(frozen=True)
class PPOConfig:
    """Recurrent PPO (Schulman et al. 2017)."""

    discount: float = 0.99
    """γ, per step (BeBold's released settings)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation (Schulman et al. 2017)."""
    clip: float = 0.2
    """Clipping range of the probability ratio (Schulman et al. 2017)."""
    epochs: int = 2
    """Passes over each rollout (ours: half of the usual four, since the batch is large)."""
    minibatches: int = 4
    """Minibatches per pass, split over environments (OpenAI baselines)."""
    learning_rate: float = 1e-3
    """Adam's step size (measured: 3e-4, the usual one, takes twice the steps at this batch)."""
    learning_rate_decay: Literal["linear", "none"] = "linear"
    """linear: it falls to 0 at `total_steps` (measured: settled policies fall apart without)."""
    adam_eps: float = 1e-8
    """Adam's ε (PyTorch's; measured: OpenAI baselines' 1e-5 outweighs the gradients of a small bonus, as advantages are
    not divided by their deviation, and can double the steps where exploration takes long)."""
    max_grad_norm: float = 0.5
    """Global gradient norm is clipped to this (OpenAI baselines)."""
    entropy: float | None = None
    """Entropy coefficient. None takes the task's own: 0.05 for LavaGap and 0.02 for LavaCrossing (measured: with less
    the policy goes straight ahead, into the lava), else 5e-3 (measured: at 2e-3 ObstructedMaze-2Dlhb's first reward
    takes 5 M steps; BeBold's is 5e-4)."""
    entropy_decay: Literal["linear", "none"] = "linear"
    """linear: it falls to 0 at `total_steps`, so that in the end the policy is sure of itself (measured: where it ends
    at half of the run, MultiRoom-N12-S10 falls apart for a while)."""
    value_loss: float = 0.1
    """Weight of the value loss (measured: at the usual 0.5 its gradient upsets the policy once rewards come)."""
    huber_delta: float | None = None
    """An error of the values beyond this counts linearly, not squared; 0: all are squared. None takes the task's own:
    3 for ObstructedMaze (measured, seed 11: OMFull ends at .92 with 1, at .95 with 3), else 1 (measured: with 2, 3
    or 0 MultiRoom-N12-S10's policy falls apart for a while once the bonus is gone)."""
    extrinsic_scale: float = 10.0
    """Factor on the environment's reward. 1 in the paper; 10 keeps it above the bonus (measured); 0: bonus alone."""
    bootstrap_timeouts: bool = True
    """On: the value of the last observation stands for what a time-out cut off. Off, as in the paper's code: nothing
    does."""


@dataclass(frozen=True)
class IMPALAConfig:
    """The V-trace actor-critic (Espeholt et al. 2018); the papers' settings are those of `--preset paper`."""

    discount: float = 0.99
    """γ, per step (BeBold's released settings)."""
    rho_clip: float = 1.0
    """ρ̄: ratios in the temporal differences are clipped to this (Espeholt et al. 2018)."""
    c_clip: float = 1.0
    """c̄: ratios in the trace are clipped to this (Espeholt et al. 2018)."""
    minibatches: int = 8
    """Steps of the optimiser a rollout, each on its own share of the environments, seen once (ours; BeBold: 1)."""
    learning_rate: float = 1e-3
    """RMSProp's step size (measured; BeBold's 1e-4 for its own network)."""
    learning_rate_decay: Literal["linear", "none"] = "linear"
    """linear: it falls to 0 at `total_steps` (BeBold's released settings)."""
    rms_eps: float = 1e-5
    """RMSProp's ε (BeBold's released settings; measured: its appendix's 0.01 outweighs the gradients)."""
    rms_decay: float = 0.99
    """RMSProp's average of squared gradients (BeBold's released settings)."""
    max_grad_norm: float = 40.0
    """Global gradient norm is clipped to this (BeBold's released settings); losses are sums over time."""
    entropy: float = 5e-3
    """Entropy coefficient (PPO's usual one; BeBold's is 5e-4, for rewards of a tenth). It does not fall."""
    value_loss: float = 0.5
    """Weight of the value loss (BeBold's released settings)."""
    extrinsic_scale: float = 10.0
    """Factor on the environment's reward. 1 in the paper; 10 as PPO has it here; 0: the bonus alone."""
    reward_clip: float = 0.0
    """r_e + β r_i is clamped to ± this (BeBold's released settings: 1); 0: it is not."""
    bootstrap_timeouts: bool = True
    """On: the value of the last observation stands for what a time-out cut off. Off, as in the paper's code: nothing
    does."""


@dataclass(frozen=True)
class RNDConfig:
    """Random network distillation, n(o) = ‖φ(o) - φ'(o)‖₂."""

    architecture: Literal["mlp", "bebold", "ride"] = "mlp"
    """mlp: dense layers (ours). bebold: a frozen random convolutional encoder before both networks, all of them of
    fixed sizes (BeBold's released code). ride: two convolutional networks (RND in RIDE's comparisons)."""
    encoding: Encoding = "contact"
    """One-hot vectors of the view, of the cells that the key `contact` looks at (measured: decides ObstructedMaze), or
    of the view without colours; codes of the view / 10, as they are (integers), or / 255 (bytes); `raw` for vector
    observations."""
    hidden: int = 128
    """Width of the hidden layers."""
    outputs: int = 64
    """Width of φ and φ'."""
    target_layers: int = 2
    """Hidden layers of the target φ."""
    predictor_layers: int = 3
    """Hidden layers of the predictor φ'; one more than the target (Burda et al. 2018)."""
    normalise_target: bool = True
    """On: φ has unit norm and φ' starts at zero, so that an unseen input has error 1 whatever it shows (measured). Off:
    both are plain networks."""
    loss: Literal["norm", "square"] = "norm"
    """Mean norm (as the bonus) or mean square of the error."""
    loss_scale: float = 1.0
    """Factor on the loss, which matters to RMSProp's ε and to clipping."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """Of φ'. RMSProp has the paper's ε of 0.01."""
    learning_rate: float = 1e-4
    """Step size of φ' (the paper's code; at 1e-3 MultiRoom's few contacts are known before it is solved)."""
    max_grad_norm: float = 0.0
    """The gradient's norm is clipped to this; 0: it is not."""
    epochs: int = 1
    """Passes of φ' over each rollout (once per rollout in the paper's code)."""
    minibatches: int = 4
    """Minibatches per pass, drawn over time and environments (Burda et al. 2018)."""


@dataclass(frozen=True)
class ICMConfig:
    """The intrinsic curiosity module (Pathak et al. 2017); RIDE reads its bonus off the same embedding."""

    architecture: Literal["mlp", "ride"] = "mlp"
    """Of the embedding φ. mlp: dense layers (ours). ride: three convolutions (RIDE)."""
    encoding: Encoding = "onehot"
    """What φ sees, as in `rnd.encoding`."""
    hidden: int = 128
    """Width of φ's hidden layers."""
    layers: int = 1
    """Hidden layers of φ."""
    outputs: int = 64
    """Width of φ (128 in RIDE)."""
    model_hidden: int = 256
    """Width of the hidden layer of the forward and the inverse model (RIDE)."""
    forward_loss: float = 0.01
    """Weight of the forward model's loss (measured: at 0.1, and with RIDE's 10 against 0.1, φ shrinks to a point)."""
    inverse_loss: float = 1.0
    """Weight of the inverse model's loss. To Adam only the ratio of both matters."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """RMSProp has the paper's ε of 0.01."""
    learning_rate: float = 1e-3
    """Step size."""
    max_grad_norm: float = 0.0
    """The gradient's norm is clipped to this; 0: it is not."""
    epochs: int | None = None
    """Passes over each rollout; None: the method's own (measured: ICM 4, RIDE 1)."""
    minibatches: int = 4
    """Minibatches per pass, drawn over time and environments."""


@dataclass(frozen=True)
class AMIGoConfig:
    """AMIGo's teacher (Campero et al. 2021), which sets goals."""

    learning_rate: float = 1e-3
    """Adam's step size of the teacher (the paper; 2e-3 in its repository)."""
    entropy: float = 0.05
    """Entropy coefficient of the teacher (its repository; 0.01 in the paper, at which it settles on one cell)."""
    value_loss: float = 0.5
    """Weight of the value loss of the teacher's baseline (as BeBold's released settings weigh the student's)."""
    batch: int = 32
    """Goals, reached or given up, that one step of the teacher learns from at least (150 in the paper, which has many
    more steps; measured)."""
    reward: float = 0.7
    """What the teacher earns for a goal that was reached in t* steps or more (the paper)."""
    penalty: float = 0.3
    """What it loses for one that was reached sooner, or not in this episode (the paper)."""
    threshold: int = 7
    """t* at first, in steps (the paper)."""
    good_batches: int = 10
    """t* rises by one after so many good batches in a row (the paper)."""
    good_reward: float = 0.0
    """A batch is good if the teacher earned more than this on average (ours: more than nothing)."""
    solved_reward: float | None = 1.0
    """What it earns instead, whatever became of the goal, where the task was solved (ours: else whoever solves tasks
    teaches that goals are not reached); None: the goal is judged there, too."""


@dataclass(frozen=True)
class IntrinsicConfig:
    """The intrinsic reward. The method chooses the formula; these are its numbers."""

    coefficient: float | None = None
    """β: weight of the bonus; None takes the method's own, see docs/methods.md (0.1 and 0.05 in BeBold's appendix)."""
    coefficient_decay: Literal["linear", "none"] = "linear"
    """linear: β falls to 0 at `bonus_share` of the run, so that in the end the task alone counts (measured:
    ObstructedMaze)."""
    bonus_share: float = 0.5
    """Share of the run after which β, if it falls, has come to 0 (measured: at 1 agents keep detours from which they
    learnt)."""
    alpha: float = 0.5
    """α in max(n(o') - α·n(o), 0). 1 in BeBold's Eq. 3, 0.5 in NovelD."""
    key: Key = "contact"
    """What is the same state within an episode: what the agent carries and faces (measured: decides ObstructedMaze),
    the observation (Eq. 3), the full state (the authors' code), ..."""
    key_bin: float = 0.1
    """Bin width of the `discretised` key, in the observation's own unit."""
    count_capacity: int = 2**24
    """Slots of the lifelong counter (count-based methods only)."""
    rnd: RNDConfig = field(default_factory=RNDConfig)
    icm: ICMConfig = field(default_factory=ICMConfig)
    amigo: AMIGoConfig = field(default_factory=AMIGoConfig)


@dataclass(frozen=True)
class EvaluationConfig:
    """Progress evaluation during training, on the fast engine, on levels that training never draws."""

    interval: int = 250_000
    """Environment steps between evaluations; 0 turns them off (protocol: docs/reproduction.md)."""
    episodes: int = 128
    """Held-out levels, the same each time; actions are sampled (protocol: docs/reproduction.md)."""


@dataclass(frozen=True)
class MapsConfig:
    """Maps of where training on one level has been, and of what its policy is paid where: docs/visitation.md."""

    interval: int = 0
    """Environment steps between two sets of maps; 0: none are made. They need a `fixed_level`."""
    steps: int = 2_000
    """Steps, at least, that the policy plays for each map of the bonus and of its own density (BeBold: 2 K)."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    task: str = "KCS3R3"
    """A MiniGrid id (MiniGrid-KeyCorridorS3R3-v0), the paper's short name (KCS3R3); see `bebold tasks`."""
    method: str = "bebold"
    """bebold, rnd, rnd-episodic, bebold-no-episodic, bebold-no-clip, bebold-averaged, bebold-count, count, episodic,
    icm, ride, amigo or none: see `bebold methods`."""
    label: str = ""
    """What the run folder, tables and figures call these settings; empty: the method."""
    seed: int = 1
    """Same seed, same machine, same number of workers: same numbers."""
    total_steps: int = 10_000_000
    """Environment steps in all, with which schedules end. `bebold train` takes what our tables give the task
    (`bebold tasks`)."""
    stop_when_solved: bool = False
    """Stop at three evaluations in a row at 95 % of the paper's return."""
    give_up_at: int = 0
    """Stop after so many environment steps, or later, if the last four progress evaluations have a mean return of .02
    or less; 0: never."""
    num_envs: int = 256
    """Environments in all, shared by the workers (ours: wide batches make matrix products fast)."""
    max_episode_steps: int = 0
    """Training episodes time out after so many steps, if not before; 0: as the task says. Agents are judged on the task
    as it is. (Measured: with 800 OMFull, whose episodes last 3600, is learnt faster.)"""
    staggered: bool | None = None
    """Begin the first episodes at random times of their limit, so that environments that solve nothing do not all time
    out together; None: as the method asks. (Ours: AMIGo's teacher would hear of failures all at once.)"""
    fixed_level: int | None = None
    """Every training episode is on the level of this seed; None: each on a level of its own."""
    unroll: int = 40
    """Steps of each environment per update, through which the memory learns (ours; 100 in BeBold)."""
    workers: int = 0
    """Data-parallel processes; 0: one per core, or one for a GPU. The global batch does not depend on it."""
    policy_lag: int = 0
    """Updates between the weights that act and those that learn from it. From 1 on the next rollout is collected while
    the learner learns from one before. V-trace (`learner impala`) corrects for it; PPO has only its clipped ratio."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: CUDA when there is one."""
    checkpoint_interval: float = 60.0
    """Seconds between checkpoints; one is always written at the end."""
    preset: Preset = "fast"
    """Where settings come from that are not given. fast: ours, for all methods. paper: networks, inputs, learner and
    coefficients of the paper that the method comes from; slow without a GPU. Of a settings object it is the origin, and
    changes nothing: `bebold.preset` makes one."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learner: Literal["ppo", "impala"] = "ppo"
    """Recurrent PPO (ours), or IMPALA's V-trace actor-critic (the paper's)."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    impala: IMPALAConfig = field(default_factory=IMPALAConfig)
    intrinsic: IntrinsicConfig = field(default_factory=IntrinsicConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    maps: MapsConfig = field(default_factory=MapsConfig)

    @property
    def name(self) -> str:
        """The label, or else the method."""
        return self.label or self.method

    @property
    def learning(self) -> PPOConfig | IMPALAConfig:
        """The settings of the learner that learns."""
        return self.impala if self.learner == "impala" else self.ppo
