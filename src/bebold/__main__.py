"""`python -m bebold` is `bebold`."""

import sys

from bebold.cli import main

sys.exit(main())
