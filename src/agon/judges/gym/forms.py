"""What an answer to a dataset looks like, all of it, so that nothing can stand beside the answer.

A form is asked before the library's scorer sees the answer. It says nothing about whether the answer is
right. The dataset's own gold has its form by definition.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Form = Callable[[str, Mapping[str, Any]], bool]

_NUMBER = r"[+-]?\d{1,60}(?:\.\d{1,60})?(?:[eE][+-]?\d{1,4})?"


def _pattern(pattern: str) -> Form:
    compiled = re.compile(pattern, re.ASCII)
    return lambda answer, entry: bool(compiled.fullmatch(answer.strip()))


def _each(pattern: str, separator: str = r"[\s,]+") -> Form:
    """Parts of this pattern. Split first: one pattern for all of it could take for ever to fail."""
    compiled, between = re.compile(pattern, re.ASCII), re.compile(separator)
    return lambda answer, entry: all(compiled.fullmatch(part) for part in between.split(answer.strip()))


def _json(answer: str) -> Any:
    """The answer as JSON without repeated keys (the last would count, a hedge); None if it is none."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is repeated")
        return found

    try:
        return json.loads(answer, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None


def _is_json(answer: str, entry: Mapping[str, Any]) -> bool:
    return _json(answer) is not None


def _colors(answer: str, entry: Mapping[str, Any]) -> bool:
    found = _json(answer)
    vertices = {str(vertex) for vertex in entry["metadata"]["puzzle"]["vertices"]}
    return isinstance(found, dict) and set(found) == vertices


def _pours(answer: str, entry: Mapping[str, Any]) -> bool:
    found = _json(answer)
    move = re.compile(r"(?:fill|empty) [A-Z]|pour [A-Z]->[A-Z]")
    return isinstance(found, list) and all(isinstance(each, str) and move.fullmatch(each) for each in found)


def _moves_or_no(answer: str, entry: Mapping[str, Any]) -> bool:
    return answer.strip().lower() == "no" or isinstance(_json(answer), list)


def _roles(answer: str, entry: Mapping[str, Any]) -> bool:
    """`Lily is a saint, and Logan is a knave.`, every name once."""
    claim = r"(\w+) is an? \w+"
    pattern = rf"{claim}(?:(?:,? and |, ?|\. ?){claim})*\.?"
    names = [name.lower() for name in re.findall(claim, answer)]
    return bool(re.fullmatch(pattern, answer.strip())) and len(set(names)) == len(names)


def _digits_of_letters(answer: str, entry: Mapping[str, Any]) -> bool:
    pairs = [re.fullmatch(r"\s*([A-Z])\s*=\s*[0-9]\s*", pair) for pair in answer.split(",")]
    letters = [pair[1] for pair in pairs if pair]
    return all(pairs) and len(set(letters)) == len(letters)


FORMS: dict[str, Form] = {
    "advanced_geometry": _pattern(rf"{_NUMBER}\s*\u00b0?|\(?\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\)?"),
    "arc_agi": _pattern(r"[\d\s]+"),
    "codeio": _is_json,
    "coin_flip": _pattern(r"[+-]?[\d,]{1,60}(?:\.\d{1,60}|/\d{1,60})?"),
    "complex_arithmetic": _pattern(r"[\s()\d.+\-ijIJ]+"),
    "cryptarithm": _digits_of_letters,
    "fraction_simplification": _pattern(
        r"\$?\s*(?:\d{1,60}\s*/\s*\d{1,60}|\\d?frac\s*\{\s*\d{1,60}\s*\}\s*\{\s*\d{1,60}\s*\})\s*\$?"
    ),
    "graph_color": _colors,
    "group_anagrams": _is_json,
    "jugs": _pours,
    "kakurasu": _pattern(r"[01\s]+"),
    "knight_swap": _moves_or_no,
    "knights_knaves": _roles,
    "palindrome_partitioning": _is_json,
    "polynomial_equations": _pattern(rf"{_NUMBER}(?:\s*,\s*{_NUMBER})*"),
    "pool_matrix": _each(_NUMBER, r"\s+"),
    "power_function": _pattern(_NUMBER),
    "prime_factorization": _pattern(r"\d{1,60}(?:\s*\u00d7\s*\d{1,60})*"),
    "propositional_logic": _pattern(r"[A-Z\u2227\u2228\u00ac\u2192\u2194()\s]{1,400}"),
    "quantum_lock": _each(r"[A-Ca-c]", r"\s*(?:\u2192|->)\s*|[\s,]+"),
    "rearc": _pattern(r"[\d\s]+"),
    "rubiks_cube": _each(r"\d?[A-Za-z]w?(?:'\d?|\d'?)?", r"\s+"),
    "rush_hour": _each(r"[A-Z][+-]\d{1,2}"),
    "sokoban": _pattern(r"[UDLR]+"),
    "survo": _pattern(r"[\d\s-]+"),
    "time_intervals": _pattern(
        r"-?\d{1,9}(?: days?)?|(?:-?\d{1,9} days?, ?)?\d{1,3}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
    ),
    "tower_of_hanoi": _each(r"Move disk \d{1,4} from Peg \d{1,4} to Peg \d{1,4}", r"\s*\n\s*"),
}

# The whole answer is compared with the gold, up to case and white space, or each of its words is checked.
_COMPARED = """
ab acre aiw arc_1d base_conversion basic_arithmetic bf binary_alternation caesar_cipher
calendar_arithmetic chain_sum circuit_logic color_cube_rotation count_bits count_primes course_schedule
decimal_arithmetic decimal_chain_sum dice emoji_mystery family_relationships futoshiki gcd
isomorphic_strings largest_island lcm leg_counting letter_counting list_functions mahjong_puzzle
manipulate_matrix maze mini_sudoku modulo_grid needle_haystack number_filtering number_format
number_sequence palindrome_generation path_star products ransom_note rectangle_count rotate_matrix
rotten_oranges self_reference sentence_reordering shortest_path simple_equations simple_geometry
string_manipulation string_splitting string_synthesis sudoku syllogism tsumego word_ladder
word_sequence_reversal zebra_puzzles
"""
COMPARED = frozenset(_COMPARED.split())
