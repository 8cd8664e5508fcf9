"""``python -m gpt_oss_harmony``: the same as the command ``harmony``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
