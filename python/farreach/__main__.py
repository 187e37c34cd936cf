"""`python -m farreach`: the commands that need Python."""

from .command import main

if __name__ == "__main__":
    raise SystemExit(main())
