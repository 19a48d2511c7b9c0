r"""Properties of math equality, one for each cause of wrong verdicts: what is equal, and its near misses.

`equal` is called in this process: what is generated here is harmless.
"""

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agon.judges.math.equality import equal

quick = settings(max_examples=25, deadline=None)
numbers = st.integers(2, 97)
letters = st.lists(st.sampled_from("abcmnpqrtuvxyz"), min_size=1, max_size=4, unique=True)
pairs_in_order = st.lists(st.integers(-9, 9), min_size=2, max_size=2, unique=True).map(sorted)


@settings(max_examples=8, deadline=None)  # each has four comparisons at all the points where signs matter
@given(letters, numbers)
def test_bars_change_what_may_be_negative(names, factor):
    product = " ".join(names)
    assert not equal(product, f"|{product}|")
    assert not equal(f"{factor}{product}", rf"\sqrt{{({factor}{product})^2}}")
    assert not equal(f"{product}-{factor}", f"|{product}-{factor}|")
    assert equal(f"|{product}|", rf"\sqrt{{({product})^2}}")


@quick
@given(letters, st.integers(0, 30))
def test_an_index_belongs_to_its_letter(names, index):
    letter = names[0]
    for changed in (letter, f"{letter}_{{{index + 1}}}", f"{letter}{index}", f"{index}{letter}"):
        assert not equal(f"{letter}_{{{index}}}", changed)
        assert not equal(changed, f"{letter}_{{{index}}}")


@quick
@given(st.integers(3, 9), st.integers(1, 500))
def test_a_base_may_be_left_out_but_not_added_or_changed(base, value):
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = str(digit) + digits
    gold = f"{digits}_{{{base}}}"
    assert equal(gold, digits)
    assert equal(gold, f"({digits})_{base}")
    assert not equal(digits, gold)
    assert not equal(gold, f"{digits}_{{{base + 1}}}")


@quick
@given(numbers, st.integers(1, 6), st.integers(1, 9))
def test_a_decimal_exponent_is_read_to_its_end(base, whole, tenth):
    for sign in ("", "-"):
        power = f"{base}^{sign}{whole}.{tenth}"
        assert equal(power, f"{base}^{{{sign}{whole}.{tenth}}}")
        assert equal(power, rf"{base}^{{{sign}\frac{{{10 * whole + tenth}}}{{10}}}}")
        assert not equal(power, f"{base}^{{{sign}{whole}}}")
        assert not equal(power, rf"{base}^{{{sign}{whole}}}\cdot 0.{tenth}")


@quick
@given(st.integers(1, 89).filter(lambda angle: angle != 45), st.sampled_from(["sin", "cos", "tan"]))
def test_a_degree_counts_inside_a_function_and_is_a_unit_outside(angle, function):
    other = {"sin": "cos", "cos": "sin", "tan": "cot"}[function]
    assert not equal(rf"\{function} {angle}^\circ", rf"\{function} {angle}")
    assert not equal(rf"\{function} {angle}", rf"\{function} {angle}^\circ")
    assert not equal(rf"\{function} {angle}^\circ", rf"\{other} {angle}^\circ")
    assert equal(rf"\{function} {angle}^\circ", rf"\{other}({90 - angle}^{{\circ}})")
    assert equal(rf"{angle}^\circ", str(angle))


CURRENCIES = [r"\$%s", "€%s", "£%s", "%s cents", "%s rupees", r"%s\text{ yen}"]
UNITS = ["km/h", "m/s", "km", "mph", "kW", "MW", "mW", "cm", "eggs", "kg", "hours", "square feet"]
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "dozen": 12, "lakh": 10**5, "crore": 10**7}


@quick
@given(
    numbers,
    st.lists(
        st.sampled_from(CURRENCIES + [f"%s {unit}" for unit in UNITS]), min_size=2, max_size=2, unique=True
    ),
)
def test_a_unit_may_be_missing_but_not_another_one(number, forms):
    first, second = (form.replace("%s", str(number)) for form in forms)
    assert equal(str(number), first)
    assert equal(first, str(number))
    assert not equal(first, second)
    assert not equal(first, forms[0].replace("%s", str(number + 1)))


@quick
@given(numbers, st.sampled_from(sorted(SCALES)), st.sampled_from([r"%s", r"\$%s", r"%s dollars"]))
def test_a_scale_word_is_part_of_the_number(number, scale, form):
    scaled = form.replace("%s", f"{number} {scale}")
    assert not equal(str(number), scaled)
    assert not equal(form.replace("%s", str(number)), scaled)
    assert equal(str(number * SCALES[scale]), scaled)
    for letter in (r"\text{k}", r"\text{ K}", r"\text{M}", r"\text{bn}", r"\text{e5}", "k", "M"):
        assert not equal(str(number), f"{number}{letter}")


HEDGES = [
    r"%s \text{ vs } %s", r"%s \equiv %s", "%s or %s", "either %s or %s", "%s (not %s)", "%s, %s", "%s; %s", "%s/%s",
    r"%s \to %s", r"%s \neq %s", r"%s \approx %s", "%s = %s", "%s ~ %s", "%s - %s", "%s to %s", r"%s\quad %s",
    "%s | %s",
    r"%s \& %s", r"\text{%s not %s}", r"%s \lor %s", r"%s \Rightarrow %s", "%s:%s", "%s instead of %s", r"%s \pm %s",
]  # fmt: skip


@pytest.mark.parametrize("form", HEDGES)
@quick
@given(st.integers(100, 999), st.integers(2, 97))
def test_two_numbers_are_never_one_of_them(form, first, second):
    assume(first not in (2 * second, second * second))  # 100 - 50 is 50, 100 / 10 is 10
    for pair in ((first, second), (second, first)):
        answer = form.replace("%s", str(pair[0]), 1).replace("%s", str(pair[1]), 1)
        assert not equal(str(first), answer)
        assert not equal(str(second), answer)


def spellings(low: int, high: int, low_closed: bool, high_closed: bool) -> list[str]:
    """One interval in all the ways that are read."""
    left, right = (r"\leq" if closed else "<" for closed in (low_closed, high_closed))
    condition = f"{low} {left} x {right} {high}"
    apart = rf"x {'>' if not low_closed else '>='} {low} \text{{ and }} x {right} {high}"
    interval = f"{'[' if low_closed else '('}{low},{high}{']' if high_closed else ')'}"
    return [
        interval,
        condition,
        rf"\{{x \mid {condition}\}}",
        rf"\{{x : {condition}\}}",
        rf"x \in {interval}",
        apart,
    ]


@quick
@given(pairs_in_order, st.booleans(), st.booleans(), st.integers(0, 3), st.data())
def test_a_set_is_the_same_in_every_spelling_and_differs_by_an_end(
    ends, low_closed, high_closed, change, data
):
    low, high = ends
    gold = data.draw(st.sampled_from(spellings(low, high, low_closed, high_closed)))
    assert equal(gold, data.draw(st.sampled_from(spellings(low, high, low_closed, high_closed))))
    changed = [
        (low, high, not low_closed, high_closed),
        (low, high, low_closed, not high_closed),
        (low, high + 1, low_closed, high_closed),
        (low - 1, high, low_closed, high_closed),
    ][change]
    assert not equal(gold, data.draw(st.sampled_from(spellings(*changed))))


@quick
@given(pairs_in_order)
def test_and_is_not_or(ends):
    low, high = ends
    outside, inside = (f"x<{low}", f"x>{high}"), (f"x>{low}", f"x<{high}")
    for first, second in (outside, inside):
        assert not equal(rf"{first} \text{{ or }} {second}", rf"{first} \text{{ and }} {second}")
        assert not equal(rf"{first} \text{{ and }} {second}", f"{first} or {second}")
        assert equal(rf"{first} \text{{ or }} {second}", f"{second} or {first}")
    assert equal(rf"(-\infty,{low})\cup({high},\infty)", f"{outside[0]} or {outside[1]}")
    assert equal(f"({low},{high})", f"{inside[0]}, {inside[1]}")


@quick
@given(st.permutations([1, 2, 3]), st.permutations(["a", "b", "c"]))
def test_values_belong_to_their_names(values, names):
    named = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
    in_order = dict(zip(names, values, strict=True)) == {"a": 1, "b": 2, "c": 3}
    assert equal("a=1, b=2, c=3", named) is in_order
    assert equal("(1,2,3)", named) is in_order
    assert equal("a=1, b=2, c=3", ", ".join(map(str, values))) is (list(values) == [1, 2, 3])


@quick
@given(numbers, numbers, st.integers(2, 9))
def test_a_ratio_is_only_itself(first, second, factor):
    assume(first != second)
    assert equal(f"{first}:{second}", f"{first} : {second}")
    assert not equal(f"{first}:{second}", f"{second}:{first}")
    assert not equal(f"{first}:{second}", f"{first * factor}:{second * factor}")


NAMES = [
    "x", "AB", "m+n", "mn", r"\text{Area}", "Area", "f(2)", "f^{-1}(2)", r"\cos A", r"\sin\theta", r"\angle ABC", "a_1",
    r"S_{\triangle ABC}", "P(A)", r"\tan(\alpha+\beta)", "|AB|", "f'(1)", r"\text{total cost}",
]  # fmt: skip
UNSOLVED = [
    "2x",
    "x^2",
    "x+1",
    r"\sqrt{x}",
    r"\sin x",
    r"\frac{x}{2}",
    "-x",
    "|x|",
    "3",
    r"\ln x",
    "x-y+1",
    r"\text{not}",
]


@pytest.mark.parametrize("name", NAMES)
@quick
@given(st.integers(2, 999))
def test_a_name_may_stand_before_a_value(name, value):
    assert equal(str(value), f"{name}={value}")
    assert equal(f"{name}={value}", str(value))
    assert not equal(str(value), f"{name}={value + 1}")
    assert not equal(str(value), f"{name}={value + 1}={value}")
    assert not equal(f"{name}={value}", f"k={value}")


@pytest.mark.parametrize("side", UNSOLVED)
@quick
@given(st.integers(4, 999))
def test_an_unsolved_equation_is_no_value(side, value):
    assert not equal(str(value), f"{side}={value}")


@quick
@given(st.text(alphabet="0123456789+-=<(),[]{}", min_size=1, max_size=12))
def test_full_width_signs_are_the_plain_ones(text):
    wide = "".join(chr(ord(character) + 0xFEE0) for character in text)
    assert equal(text, wide) == equal(text, text)


@quick
@given(st.integers(-999, 999), st.sampled_from("xyz"))
def test_raised_digits_are_an_exponent(exponent, letter):
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert equal(f"{letter}^{{{exponent}}}", letter + raised)
    assert not equal(f"{letter}^{{{exponent + 1}}}", letter + raised)


@quick
@given(st.integers(0, 9), st.sampled_from(["", "0", "1"]), st.integers(12, 98).map("{:02}".format))
def test_a_repeating_decimal_is_its_fraction(whole, once, repeated):
    shift = 10 ** len(once)
    value = whole + Fraction(int(once or 0), shift) + Fraction(int(repeated), 99 * shift)
    gold = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    for form in (r"\overline{%s}", r"\bar{%s}", "(%s)", r"\dot{%s}\dot{%s}"):
        mark = (
            form.replace("%s", repeated[0], 1).replace("%s", repeated[1])
            if "dot" in form
            else form % repeated
        )
        assert equal(gold, f"{whole}.{once}{mark}")
    assert not equal(gold, f"{whole}.{once}{repeated}")


@quick
@given(st.lists(st.integers(-9, 9), min_size=4, max_size=4), st.integers(2, 9))
def test_a_factor_before_a_matrix_multiplies_every_entry(entries, factor):
    assume(any(entries))

    def matrix(values: list[int], begin: str = "{pmatrix}", end: str = "{pmatrix}") -> str:
        return rf"\begin{begin} {values[0]} & {values[1]} \\ {values[2]} & {values[3]} \end{end}"

    product = [factor * entry for entry in entries]
    assert equal(matrix(product), f"{factor}{matrix(entries)}")
    assert equal(matrix(product), rf"\left[{matrix(product, '{array}{cc}', '{array}')}\right]")
    assert not equal(matrix(entries), f"{factor}{matrix(entries)}")
    assert not equal(matrix(product), rf"\left|{matrix(product, '{array}{cc}', '{array}')}\right|")
