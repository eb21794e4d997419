"""For all tests: memory that nobody may read holds NaN, so that whoever reads it is found out."""

import os

os.environ.setdefault("TEACHKV_POISON", "1")
