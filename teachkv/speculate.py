"""Prompt lookup: guess the next tokens by finding the last few in what was said before.

A guess costs nothing and is only ever a guess: the model computes all guessed positions in one pass, and a guess counts
only if it is the token that plain decoding would have drawn there. So the output is the same with and without.
"""

from collections.abc import Sequence

LONGEST, SHORTEST = 4, 2  # tokens of the suffix that is looked for; one token alone recurs by chance


def propose(tokens: Sequence[int], most: int) -> list[int]:
    """`most` tokens that followed the latest earlier occurrence of the longest matching suffix; [] if there is none.

    Where the text ends first, the guess goes on with itself: after "abcabc" comes "abcabc..."
    """
    if most < 1:
        return []
    for size in range(min(LONGEST, len(tokens) - 1), SHORTEST - 1, -1):
        at = last_occurrence(tokens, size)
        if at is not None:
            read = list(tokens[at + size :])
            for place in range(most):
                read.append(read[place])
            return read[:most]
    return []


def last_occurrence(tokens: Sequence[int], size: int) -> int | None:
    """Start of the latest place before the end where the last `size` tokens stand already."""
    suffix = tokens[-size:]
    first = suffix[0]
    for at in range(len(tokens) - size - 1, -1, -1):
        if tokens[at] == first and tokens[at : at + size] == suffix:
            return at
    return None


def draft_room(lengths: Sequence[int], maximum: int, wanted: int) -> int:
    """Drafts per row that fit: all rows write behind one append column, so the longest row says how many.

    lengths: positions that hold KV, per row; maximum: columns of a row. One column is the drawn token's own.
    """
    # guard[draft-room]: k + 1 columns must fit behind the longest row; where they do not, decoding goes on plainly
    # mutant[draft-room/own-column-forgotten]:
    #   - return max(0, min(wanted, maximum - max(lengths) - 1))
    #   + return max(0, min(wanted, maximum - max(lengths)))
    return max(0, min(wanted, maximum - max(lengths) - 1))
