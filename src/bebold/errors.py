"""What can go wrong outside this package. Each message is one sentence that names the mend."""


class UsageError(ValueError):
    """A request that cannot be met as it stands: exit code 2."""


class RunError(RuntimeError):
    """A run that cannot start or go on: exit code 1."""
