"""`pytest --mutate`: named mutants of named guards, each with the named test that must go red.

Cards (`cards.py`) declare a mutant right above the guard it takes away. Importing this package imports nothing;
pytest loads `teachkv.mutate.plugin` by its entry point.
"""
