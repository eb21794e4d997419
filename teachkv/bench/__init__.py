"""`teachkv bench`: measuring without fooling oneself.

A *cell* is one workload, an *arm* one engine configuration or peer, a *sample* one run of one cell by one arm in a
fresh process. A *ladder* is several cells in one process; an *isolated* cell has its process to itself. The guards in
`guards/` each refuse one way in which such numbers have lied.
"""
