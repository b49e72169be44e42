"""One HTML file that shows runs: tables, learning curves, maps, agents at play. It asks the network for nothing."""

from bebold.page.document import write

__all__ = ["write"]
