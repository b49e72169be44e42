"""The paper's experiments as data: settings beside the published numbers."""

from bebold.experiments.ablations import ABLATIONS
from bebold.experiments.consistency import CONSISTENCY
from bebold.experiments.dynamic_obstacles import DYNAMIC_OBSTACLES
from bebold.experiments.every_method import EVERY_METHOD
from bebold.experiments.sensitivity import SENSITIVITY
from bebold.experiments.static import STATIC
from bebold.experiments.table2 import TABLE2

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (TABLE2, ABLATIONS, CONSISTENCY, SENSITIVITY, STATIC, DYNAMIC_OBSTACLES, EVERY_METHOD)
}
"""What `bebold reproduce` knows."""
