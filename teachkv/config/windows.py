"""Which layers slide, and why. The answer is one value per layer; nothing else in the engine reads a window key.

Two gates stand in silence in front of a declared window: `use_sliding_window` (absent means false) and
`max_window_layers` (absent means 28). Layers i >= max_window_layers slide; documents once said the opposite
(transformers#35896).
"""

from teachkv.config.families import Family
from teachkv.config.reading import Fields

KINDS = ("full_attention", "sliding_attention")
DEFAULT_THRESHOLD = 28


def effective_windows(fields: Fields, family: Family, num_layers: int) -> tuple[tuple[int | None, ...], list[str]]:
    """([window or None per layer], notes). Raises ConfigError for contradictory `layer_types`."""
    declared = _declared(fields)
    use_flag = fields.flag("use_sliding_window", False)
    threshold = fields.integer("max_window_layers", DEFAULT_THRESHOLD, low=0)
    listed = _layer_types(fields, num_layers)
    window, notes = _gate(fields, family, declared, use_flag)
    if listed is not None:
        # guard[layer-types-need-window]: a layer listed as sliding would run full attention without a word
        # mutant[layer-types-need-window/removed]:
        #   - if window is None and "sliding_attention" in listed:
        #   + if False:
        if window is None and "sliding_attention" in listed:
            fields.fail(
                "layer_types", "lists sliding_attention, but no window is in effect; " + _cure(family, declared)
            )
        notes.append("windows follow layer_types" + _threshold_note(fields, family))
        return tuple(window if kind == "sliding_attention" else None for kind in listed), notes
    if window is None:
        return (None,) * num_layers, notes
    if not family.has_window_flag:
        return (window,) * num_layers, notes
    # guard[window-threshold]: layers at and above the threshold slide; the other side looks right on short prompts
    # mutant[window-threshold/other-side]:
    #   - sliding = [layer >= threshold for layer in range(num_layers)]
    #   + sliding = [layer < threshold for layer in range(num_layers)]
    # mutant[window-threshold/off-by-one]:
    #   - sliding = [layer >= threshold for layer in range(num_layers)]
    #   + sliding = [layer > threshold for layer in range(num_layers)]
    sliding = [layer >= threshold for layer in range(num_layers)]
    if not any(sliding):
        notes.append(
            f"window {window} is gated off: max_window_layers is {threshold}"
            f"{'' if fields.has('max_window_layers') else ' by default'} and there are {num_layers} layers"
        )
    return tuple(window if slides else None for slides in sliding), notes


def _declared(fields: Fields) -> int | None:
    """The number in `sliding_window`; 0, -1, null and absent all mean none."""
    value = fields.integer("sliding_window", 0, low=-1)
    return value if value > 0 else None


def _gate(fields: Fields, family: Family, declared: int | None, use_flag: bool) -> tuple[int | None, list[str]]:
    """The window that is left once the family's own gates are applied."""
    if not family.has_window:
        note = [f"sliding_window {declared} is ignored: {family.name} models have no window"] if declared else []
        return None, note
    if not family.has_window_flag:
        notes = [] if "sliding_window" in fields.data else ["sliding_window is absent: full attention in every layer"]
        if fields.has("use_sliding_window"):
            notes.append(f"use_sliding_window is ignored: {family.name} models have no such flag")
        return declared, notes
    # guard[window-flag]: published configs carry a number with the flag false; reading the number alone windows them
    # mutant[window-flag/removed]:
    #   - if declared is not None and not use_flag:
    #   + if False:
    if declared is not None and not use_flag:
        why = "false" if fields.has("use_sliding_window") else "absent, which means false"
        return None, [f"window {declared} is gated off: use_sliding_window is {why}"]
    if declared is None and use_flag:
        return None, ["use_sliding_window is true, but sliding_window names no window: full attention in every layer"]
    return declared, []


def _layer_types(fields: Fields, num_layers: int) -> list[str] | None:
    listed = fields.raw("layer_types")
    if listed is None:
        return None
    if not isinstance(listed, list):
        fields.fail("layer_types", "must be a list, one kind per layer")
    if len(listed) != num_layers:
        fields.fail("layer_types", f"has {len(listed)} entries for {num_layers} layers")
    for index, kind in enumerate(listed):
        if kind not in KINDS:
            fields.fail("layer_types", f"entry {index} is {str(kind)[:40]!r}; known are {', '.join(KINDS)}")
    return listed


def _cure(family: Family, declared: int | None) -> str:
    if not family.has_window:
        return f"{family.name} models have no window"
    if declared is None:
        return "set sliding_window"
    return "set use_sliding_window to true"


def _threshold_note(fields: Fields, family: Family) -> str:
    return "; max_window_layers is overridden" if family.has_window_flag and fields.has("max_window_layers") else ""
