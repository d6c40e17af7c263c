"""Function templates: the code that kata repositories are made of.

Two disjoint families: training repositories use ``TRAIN``, validation and test repositories ``HELD_OUT``, so that
a policy is judged on functions it has never seen. Which template goes where is decided in ``world.py``.

A body may use ``$k`` (a constant of 3..9), ``$m`` (10..20) and ``$helper`` (a function on numbers that lives in
another module). All loops are over finite sequences, so that no single-token change can make one run forever.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["list", "number", "scalar"]
"""What a function maps: list → list, list → number, number → number."""


class Template(NamedTuple):
    """One function: its name, what it maps, a docstring and the lines of its body."""

    name: str
    kind: Kind
    doc: str
    body: str

    @property
    def needs_helper(self) -> bool:
        """True when the body calls a function of another module."""
        return "$helper" in self.body


def _template(kind: Kind, name: str, doc: str, body: str) -> Template:
    return Template(name, kind, doc, body.strip("\n"))


_EACH = """
    result = []
    for value in values:
        result.append({0})
    return result
"""
_WHERE = """
    result = []
    for value in values:
        if {0}:
            result.append(value)
    return result
"""
_SUM = """
    total = 0
    for value in values:
        total += {0}
    return total
"""
_COUNT = """
    count = 0
    for value in values:
        if {0}:
            count += 1
    return count
"""
_PAIRS = """
    result = []
    for i in range(1, len(values)):
        result.append({0})
    return result
"""
_COUNT_PAIRS = """
    count = 0
    for i in range(1, len(values)):
        if {0}:
            count += 1
    return count
"""

TRAIN: tuple[Template, ...] = (
    _template(
        "list",
        "running_totals",
        "Totals of all values so far.",
        """
    total = 0
    result = []
    for value in values:
        total += value
        result.append(total)
    return result
""",
    ),
    _template(
        "list", "gaps", "Difference of each value to the one before it.", _PAIRS.format("values[i] - values[i - 1]")
    ),
    _template("list", "clamp_values", "Values held between -$k and $m.", _EACH.format("max(-$k, min($m, value))")),
    _template("list", "keep_below", "Values below $m.", _WHERE.format("value < $m")),
    _template("list", "keep_from", "Values of at least -$k.", _WHERE.format("value >= -$k")),
    _template("list", "scale_values", "Values times $k.", _EACH.format("value * $k")),
    _template(
        "list",
        "drop_repeats",
        "Values without direct repetition.",
        """
    result = []
    for value in values:
        if len(result) == 0 or value != result[-1]:
            result.append(value)
    return result
""",
    ),
    _template(
        "list", "pair_sums", "Sum of each value and the one before it.", _PAIRS.format("values[i] + values[i - 1]")
    ),
    _template("list", "shift_up", "Values plus $k.", _EACH.format("value + $k")),
    _template(
        "list",
        "pad_front",
        "Values after a leading zero.",
        """
    result = [0]
    for value in values:
        result.append(value)
    return result
""",
    ),
    _template(
        "list",
        "running_highest",
        "Highest value so far at each place.",
        """
    result = []
    best = -100
    for value in values:
        best = max(best, value)
        result.append(best)
    return result
""",
    ),
    _template("list", "halves", "Half of each value, rounded down.", _EACH.format("value // 2")),
    _template("list", "keep_positive", "Values above zero.", _WHERE.format("value > 0")),
    _template("list", "keep_even", "Even values.", _WHERE.format("value % 2 == 0")),
    _template("list", "pass_through", "Each value through $helper.", _EACH.format("$helper(value)")),
    _template(
        "list",
        "pass_with_place",
        "Each value through $helper, plus its place.",
        """
    result = []
    for i in range(0, len(values)):
        result.append($helper(values[i]) + i)
    return result
""",
    ),
    _template("number", "total_of", "Sum of the values.", _SUM.format("value")),
    _template("number", "count_above", "How many values are above $k.", _COUNT.format("value > $k")),
    _template(
        "number",
        "largest",
        "The largest value, at least zero.",
        """
    best = 0
    for value in values:
        best = max(best, value)
    return best
""",
    ),
    _template(
        "number",
        "smallest",
        "The smallest value, at most zero.",
        """
    best = 0
    for value in values:
        best = min(best, value)
    return best
""",
    ),
    _template(
        "number",
        "weighted_total",
        "Sum of the values, each times its place from one.",
        """
    total = 0
    for i in range(0, len(values)):
        total += (i + 1) * values[i]
    return total
""",
    ),
    _template("number", "count_even", "How many values are even.", _COUNT.format("value % 2 == 0")),
    _template("number", "sum_of_squares", "Sum of the squared values.", _SUM.format("value * value")),
    _template(
        "number",
        "count_rises",
        "How often a value is above the one before it.",
        _COUNT_PAIRS.format("values[i] > values[i - 1]"),
    ),
    _template(
        "number",
        "count_inside",
        "How many values are above zero and below $m.",
        _COUNT.format("value > 0 and value < $m"),
    ),
    _template("number", "score_of", "Sum of $helper over the values.", _SUM.format("$helper(value)")),
    _template(
        "number",
        "top_score",
        "Best $helper over the values, at least zero.",
        """
    best = 0
    for value in values:
        best = max(best, $helper(value))
    return best
""",
    ),
    _template("scalar", "clip", "Number held between -$k and $m.", "    return max(-$k, min($m, number))"),
    _template("scalar", "bucket", "Which bucket of $k a number falls into.", "    return number // $k"),
    _template("scalar", "wrap", "Number modulo $m.", "    return number % $m"),
    _template(
        "scalar",
        "toll",
        "Number plus a toll of $k above $m.",
        """
    if number > $m:
        return number + $k
    return number
""",
    ),
    _template("scalar", "even_floor", "Largest even number not above the number.", "    return number - number % 2"),
    _template(
        "scalar",
        "discount",
        "Number less a discount of $k from $m on.",
        """
    if number >= $m:
        return number - $k
    return number
""",
    ),
    _template("scalar", "double_up", "Twice the number plus one.", "    return number * 2 + 1"),
    _template(
        "scalar",
        "distance",
        "Distance of the number from $k.",
        """
    if number < $k:
        return $k - number
    return number - $k
""",
    ),
    _template("list", "rounded_down", "Values less their remainder by $k.", _EACH.format("value - value % $k")),
    _template("list", "remainders", "Remainder of each value by $k.", _EACH.format("value % $k")),
    _template("list", "shares", "Share of $k in each value, rounded down.", _EACH.format("value // $k")),
    _template("list", "lowered", "Values less $k.", _EACH.format("value - $k")),
    _template("list", "at_most", "Values of at most $m.", _EACH.format("min($m, value)")),
    _template("list", "at_least", "Values of at least -$k.", _EACH.format("max(-$k, value)")),
    _template("list", "keep_outside", "Values below zero or above $k.", _WHERE.format("value < 0 or value > $k")),
    _template(
        "list", "keep_middle", "Values of at least zero and at most $m.", _WHERE.format("value >= 0 and value <= $m")
    ),
    _template("list", "products", "Each value times the one before it.", _PAIRS.format("values[i] * values[i - 1]")),
    _template(
        "list",
        "pair_lows",
        "Smaller of each value and the one before it.",
        _PAIRS.format("min(values[i], values[i - 1])"),
    ),
    _template(
        "list",
        "skip_odd_places",
        "Values at even places, each plus one.",
        """
    result = []
    for i in range(0, len(values)):
        if i % 2 == 0:
            result.append(values[i] + 1)
    return result
""",
    ),
    _template(
        "list",
        "placed",
        "Each value times its place from one.",
        """
    result = []
    for i in range(0, len(values)):
        result.append(values[i] * (i + 1))
    return result
""",
    ),
    _template("list", "with_helper_less", "Each value less its $helper.", _EACH.format("value - $helper(value)")),
    _template("number", "count_odd", "How many values are odd.", _COUNT.format("value % 2 != 0")),
    _template("number", "count_below", "How many values are below -$k.", _COUNT.format("value < -$k")),
    _template(
        "number",
        "count_level",
        "How often a value is not below the one before it.",
        _COUNT_PAIRS.format("values[i] >= values[i - 1]"),
    ),
    _template(
        "number",
        "width",
        "The largest value less the smallest one.",
        """
    low = 100
    high = -100
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return high - low
""",
    ),
    _template(
        "number",
        "total_below",
        "Sum of the values below $m.",
        """
    total = 0
    for value in values:
        if value < $m:
            total += value
    return total
""",
    ),
    _template(
        "number",
        "net_count",
        "Even values less odd ones.",
        """
    count = 0
    for value in values:
        if value % 2 == 0:
            count += 1
        else:
            count -= 1
    return count
""",
    ),
    _template(
        "number",
        "total_steps",
        "Sum of all sums with the value before.",
        """
    total = 0
    for i in range(1, len(values)):
        total += values[i] + values[i - 1]
    return total
""",
    ),
    _template(
        "number",
        "total_less",
        "All values taken from $m.",
        """
    total = $m
    for value in values:
        total -= value
    return total
""",
    ),
    _template("scalar", "floor_zero", "Number, at least zero.", "    return max(0, number)"),
    _template("scalar", "cap", "Number plus one, at most $m.", "    return min($m, number + 1)"),
    _template("scalar", "surplus", "What the number has above $m.", "    return max(0, number - $m)"),
    _template("scalar", "shrink", "Number less half of it, rounded down.", "    return number - number // 2"),
    _template(
        "scalar",
        "flip_even",
        "Even numbers plus $k, others less $k.",
        """
    if number % 2 == 0:
        return number + $k
    return number - $k
""",
    ),
    _template("scalar", "rounded_share", "Share of $k, rounded to the nearest below.", "    return (number - 1) // $k"),
)

HELD_OUT: tuple[Template, ...] = (
    _template(
        "list",
        "running_lowest",
        "Lowest value so far at each place.",
        """
    result = []
    best = 100
    for value in values:
        best = min(best, value)
        result.append(best)
    return result
""",
    ),
    _template(
        "list",
        "pair_peaks",
        "Larger of each value and the one before it.",
        _PAIRS.format("max(values[i], values[i - 1])"),
    ),
    _template("list", "damped", "Values less a share of themselves.", _EACH.format("value - value // $k")),
    _template("list", "keep_between", "Values above -$k and below $m.", _WHERE.format("value > -$k and value < $m")),
    _template("list", "squares", "Squared values.", _EACH.format("value * value")),
    _template(
        "list",
        "thin_out",
        "Every value at an even place.",
        """
    result = []
    for i in range(0, len(values)):
        if i % 2 == 0:
            result.append(values[i])
    return result
""",
    ),
    _template("list", "keep_odd", "Odd values.", _WHERE.format("value % 2 != 0")),
    _template(
        "list",
        "from_place",
        "Values plus their place from one.",
        """
    result = []
    for i in range(0, len(values)):
        result.append(values[i] + i + 1)
    return result
""",
    ),
    _template("list", "raised", "Values plus one, raised to -$k at least.", _EACH.format("max(-$k, value + 1)")),
    _template("list", "cut_off", "Values less one, cut to $m at most.", _EACH.format("min($m, value - 1)")),
    _template(
        "list",
        "carry_over",
        "Each value plus what was carried from before.",
        """
    result = []
    carried = 0
    for value in values:
        result.append(value + carried)
        carried = value % 2
    return result
""",
    ),
    _template("list", "adjusted", "Each value plus its $helper.", _EACH.format("value + $helper(value)")),
    _template(
        "list",
        "stepped",
        "Each value through $helper, less the one before it.",
        _PAIRS.format("$helper(values[i]) - values[i - 1]"),
    ),
    _template(
        "number",
        "balance",
        "Values above zero less the others.",
        """
    count = 0
    for value in values:
        if value > 0:
            count += 1
        else:
            count -= 1
    return count
""",
    ),
    _template(
        "number",
        "count_falls",
        "How often a value is below the one before it.",
        _COUNT_PAIRS.format("values[i] < values[i - 1]"),
    ),
    _template(
        "number",
        "spread",
        "Distance between the largest and the smallest value.",
        """
    high = 0
    low = 0
    for value in values:
        high = max(high, value)
        low = min(low, value)
    return high - low
""",
    ),
    _template(
        "number",
        "total_change",
        "Sum of all differences to the value before.",
        """
    total = 0
    for i in range(1, len(values)):
        total += values[i] - values[i - 1]
    return total
""",
    ),
    _template(
        "number",
        "count_outside",
        "How many values are below -$k or above $m.",
        _COUNT.format("value < -$k or value > $m"),
    ),
    _template(
        "number",
        "sum_of_pairs",
        "Sum of each value times the one before it.",
        """
    total = 0
    for i in range(1, len(values)):
        total += values[i] * values[i - 1]
    return total
""",
    ),
    _template(
        "number",
        "total_above",
        "Sum of the values above $k.",
        """
    total = 0
    for value in values:
        if value > $k:
            total += value
    return total
""",
    ),
    _template(
        "number",
        "low_score",
        "Lowest $helper over the values, at most zero.",
        """
    best = 0
    for value in values:
        best = min(best, $helper(value))
    return best
""",
    ),
    _template("number", "count_scored", "How many values have $helper above $k.", _COUNT.format("$helper(value) > $k")),
    _template("scalar", "saturate", "Number, at most $m.", "    return min($m, number)"),
    _template("scalar", "ceil_share", "Share of $k, rounded up.", "    return (number + $k - 1) // $k"),
    _template("scalar", "odd_ceil", "Smallest odd number not below the number.", "    return number + 1 - number % 2"),
    _template(
        "scalar",
        "penalty",
        "Number less $k below zero.",
        """
    if number < 0:
        return number - $k
    return number
""",
    ),
    _template(
        "scalar",
        "bonus",
        "Number plus $k for multiples of two.",
        """
    if number % 2 == 0:
        return number + $k
    return number
""",
    ),
    _template("scalar", "band", "Number less $k, not above $m.", "    return min($m, number - $k)"),
    _template("scalar", "triple", "Twice the number and once more.", "    return number * 2 + number"),
)
