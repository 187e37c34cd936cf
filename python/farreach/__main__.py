"""`python -m farreach`: the commands that need Python."""

from .command import main

raise SystemExit(main())
