"""`python -m fused_rnn`."""

import sys

from fused_rnn.cli import main

if __name__ == "__main__":
    sys.exit(main())
