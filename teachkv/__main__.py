"""`python -m teachkv` is the command line."""

import sys

from teachkv.cli import main

sys.exit(main())
