"""Learners: from a rollout and a bonus to a better policy."""
