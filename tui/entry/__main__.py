"""`python -m grpo_wizard` is the same as `grpo-wizard`."""

import sys

from grpo_wizard.tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
