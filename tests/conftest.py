"""For all tests: memory that nobody may read holds NaN, so that whoever reads it is found out."""

import os

from hypothesis import settings

os.environ.setdefault("TEACHKV_POISON", "1")

# A busy machine makes an example slow, not wrong.
settings.register_profile("teachkv", deadline=None)
settings.load_profile("teachkv")
