"""In which order the arms of a cell run: balanced and shuffled at once."""

import random


def orders(arms: int, rounds: int, seed: int) -> list[list[int]]:
    """One order of range(arms) per round.

    Over each `arms` rounds every arm stands at every place once (a Latin square), and which arm starts where is drawn
    anew for each square. A fixed order keeps a penalty of place that adds no spread and looks like a difference.
    """
    draw = random.Random(seed)
    found: list[list[int]] = []
    for _ in range(0, rounds, arms):
        names, shifts = list(range(arms)), list(range(arms))
        draw.shuffle(names)
        draw.shuffle(shifts)
        # guard[balanced-order]: whoever always runs first pays for it every time
        # origin: LTplus-AG/ifc-lite#4288
        # mutant[balanced-order/fixed]:
        #   - found += [[names[(place + shift) % arms] for place in range(arms)] for shift in shifts]
        #   + found += [list(range(arms)) for shift in shifts]
        # mutant[balanced-order/one-order-per-square]:
        #   - found += [[names[(place + shift) % arms] for place in range(arms)] for shift in shifts]
        #   + found += [list(names) for shift in shifts]
        found += [[names[(place + shift) % arms] for place in range(arms)] for shift in shifts]
    return found[:rounds]
