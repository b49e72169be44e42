"""The paper's experiments as data: settings beside the published numbers."""
