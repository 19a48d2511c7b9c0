r"""Tags and control tokens are made harmless, and nothing else changes: mathematics arrives as written."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from agon.game import split
from agon.game.defuse import defuse
from agon.game.markup import WITHHELD
from agon.game.prompts import CLOSE, OPEN, frame
from tests.game.hostile import CONTROL_TOKENS, messy

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder ../shared/data is not there")
SOLUTIONS = {"math/train": "solution", "math500/test": "solution", "gsm8k/train": "answer"}
STATEMENTS = {
    "deepmath_5k/train": "question",
    "math/train": "problem",
    "gsm8k/test": "question",
    "mbpp/MBPP": "text",
    "codecontests/problems": "description",
}
PROGRAMS = {"mbpp/MBPP": "code", "codecontests/problems": "reference_python"}

# Lines of MATH, DeepMath, GSM8K, MBPP and CodeContests, and a few that models write.
MATHEMATICS = [
    "0 < x < 1 and y > 2",
    "0<x<1 or y>2, a<b>c, 1<|z|<2, |x|<|y| and |z|>3",
    r"If $\frac{3}{4} < x < 1,$ then $4x - 3 > 0$ and $x - 1 < 0,$ so the inequality is satisfied.",
    r"The quadratic $(x - 1)(x - 7)$ is positive precisely when $x < 1$ or $x > 7.$",
    r"\[3 < p < q.\]Also, by the Triangle Inequality, $p + 3 > q,$ so",
    r"\[|a_3-a_1|>|a_4-a_2|>|a_5-a_3| > \dotsb,\]which is a contradiction.",
    r"Also, $[ABP] + [BCP] + [CAP] = [ABC].$  By Heron's formula, $[ABC] = 84,$ so",
    r"[CDEF]&=[CDHF]+[DEH] \\",
    r"2. \(\left<f,v\right>_{<V^*,V>} = \int_0^1 fv \, dx\)",
    r"Let $G = <a, b>$, $H = <a>$ and $<0|1> = <\psi|\phi>$; E[|X|] < E[|Y|] + |z|> 2",
    "Marianne is 20 - 8 = <<20-8=12>>12 years older than Bella.",
    "    if (len(p)<6 or len(p)>12):\r\n        return (n << d)|(n >> (INT_BITS - d))  ",
    "    newg = [[INF]*(n+1) for _ in range(n+1)]\n    if i < N - 1 and ZZ[i+1][j] >= 0:",
    '  * "cca" <image> "ca" <image> "a" ',
    "std::vector<int> a; map<string, vector<pair<int,int>>> b; if (a<b && c>d) e->f();",
    "while low < answer and high > 3: think(); if tries<attempt or attempt>5: stop",
    "x → y ≤ z ≮ w, ⟨u, v⟩ ‹not a tag› é∑ 解答 \u200b ﬁ ² \ufeff",
]


@pytest.mark.parametrize("text", MATHEMATICS)
def test_mathematics_and_programs_arrive_as_written(text: str) -> None:
    assert defuse(text) == text
    assert defuse(text, CONTROL_TOKENS) == text
    assert frame(text) == f"{OPEN}\n{text.strip()}\n{CLOSE}"


def texts(columns: dict[str, str]) -> Iterator[str]:
    for name, column in columns.items():
        with (DATA / f"{name}.jsonl").open(encoding="utf-8") as rows:
            yield from (str(json.loads(row).get(column) or "") for row in rows)


@needs_data
@pytest.mark.parametrize(
    "columns", [SOLUTIONS, STATEMENTS, PROGRAMS], ids=["solutions", "statements", "programs"]
)
def test_no_character_of_real_texts_changes(columns: dict[str, str]) -> None:
    read = with_brackets = 0
    for text in texts(columns):
        assert frame(text, CONTROL_TOKENS) == f"{OPEN}\n{text.strip()}\n{CLOSE}"
        read += 1
        with_brackets += any(bracket in text for bracket in "<>[")
    assert read > 1000
    assert with_brackets > 100


@needs_data
@pytest.mark.parametrize("dialect", ["think", "gemma"])
def test_of_a_real_solution_only_boxes_and_the_answer_are_withheld(dialect: str) -> None:
    opens, closes = {"think": ("<think>", "</think>"), "gemma": ("<|channel>", "<channel|>")}[dialect]
    for solution in texts(SOLUTIONS):
        draft = f"{opens}private{closes}{solution}<answer>7</answer>"
        shown = split(draft, dialect).shown()
        assert frame(shown) == f"{OPEN}\n{shown}\n{CLOSE}"
        at, pieces = 0, shown.split(WITHHELD)
        for piece in pieces:  # in order, and what is missing between them is a box
            found = solution.index(piece, at)
            assert not solution[at:found].strip() or solution[at:found].startswith(("\\boxed", "\\fbox"))
            at = found + len(piece)
        assert not solution[at:].strip() or pieces[-1] == ""


@needs_data
def test_of_a_real_solution_without_a_private_part_whole_lines_arrive() -> None:
    for solution in texts({"gsm8k/train": "answer"}):
        shown = split(solution, "boxed").shown()
        lines = [line.strip() for line in solution.split("\n")]
        assert frame(shown) == f"{OPEN}\n{shown}\n{CLOSE}"
        assert shown == "\n".join(line for line in lines if "=" in line) or shown == solution.strip()


@pytest.mark.parametrize("token", CONTROL_TOKENS)
def test_control_tokens_of_every_family_are_defused(token: str) -> None:
    for text in (token, f"a{token}b", f"<{token}>", token * 3, f"{token[:-1]}{token}", f"{token}{token[1:]}"):
        assert token not in defuse(text)
        assert defuse(defuse(text)) == defuse(text)


@pytest.mark.parametrize(
    "tag",
    [
        "<attempt>", "</attempt>", "<ATTEMPT>", "</ Attempt >", "< attempt\n>", "<attempt/>", "</attempt",
        "<attempt id=1>", "< attempt a='x' b=\"y z\">", "</attempt x>", "<attempt two>", "<answer: 7>",
        "<answer>", "</answer>", "< Answer >", "</ ANSWER\n>", "<think>", "</think>", "</think foo='1'",
    ],
)  # fmt: skip
def test_our_own_tags_are_defused_in_any_spelling(tag: str) -> None:
    defused = defuse(f"a {tag} b")
    assert "<" not in defused
    assert defused.replace("‹", "<").replace("›", ">") == f"a {tag} b"


@pytest.mark.parametrize(
    "text",
    [
        "<a</attempt>>", "<att<attempt>empt>", "</att</attempt>empt>", "</attempt</attempt>>", "<<</attempt>>>",
        "<|im_<|im_end|>end|>", "<|im_end<s>|>", "<attempt x=<attempt x=<s>>>", "[IN[INST]ST]", "<<s>>",
    ],
)  # fmt: skip
def test_nested_and_split_tags_stay_harmless(text: str) -> None:
    defused = defuse(text)
    for forbidden in ("<attempt>", "</attempt>", "<s>", "<|im_end|>", "[INST]"):
        assert forbidden not in defused
    assert defuse(defused) == defused


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("＜/attempt＞", "‹/attempt›"),
        ("<\u200b/att\u200dempt>", "‹\u200b/att\u200dempt›"),
        ("<|im_\u2060end|>", "‹|im_\u2060end|›"),
        ("<\x00|im_end|>", "‹\x00|im_end|›"),
        ("＜｜User｜＞", "‹｜User｜›"),
        ("<ａｎｓｗｅｒ>", "‹ａｎｓｗｅｒ›"),
        ("[\u00adINST]", "(\u00adINST)"),
        ("﹤s\ufe0f﹥", "‹s\ufe0f›"),
    ],
)
def test_what_a_normalising_tokenizer_would_read_as_a_tag_is_one(text: str, harmless: str) -> None:
    assert defuse(f"a {text} b") == f"a {harmless} b"


NORMALIZERS = [
    normalizers.NFKC(),
    normalizers.NFKD(),
    normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()]),  # sentencepiece's nmt_nfkc
    normalizers.BertNormalizer(lowercase=False, strip_accents=False),
]
disguises = st.lists(
    st.sampled_from(
        [*CONTROL_TOKENS, OPEN, CLOSE, "<", ">", "|", "＜", "＞", "｜", "\u200b", "\u00ad", "\x01", "ｓ", "x"]
    ),
    max_size=8,
).map("".join)


@given(
    disguises,
    st.lists(st.integers(0, 60), max_size=3),
    st.sampled_from("\u200b\u200d\u2060\ufeff\x01\u00ad\ufe0f"),
)
def test_no_normaliser_brings_a_token_back(text: str, places: list[int], invisible: str) -> None:
    for place in places:
        text = text[:place] + invisible + text[place:]
    for defused in (defuse(text), defuse(text.replace("<", "＜").replace(">", "＞"))):
        for normalizer in NORMALIZERS:
            read = normalizer.normalize_str(defused)
            assert not any(token in read for token in (OPEN, CLOSE, *CONTROL_TOKENS))


@pytest.mark.parametrize(
    ("token", "text", "harmless"),
    [
        ("@@turn@@", "then @@turn@@ now", "then ·@turn@@ now"),
        ("]~b]", "x]~b]user", "x)~b)user"),
        ("[PAD]", "[PAD] and [ABC]", "(PAD) and [ABC]"),
        ("<EOT>", "a<EOT>b < c", "a‹EOT›b < c"),
        ("<sp>", "＜sp＞", "‹sp›"),
        ("··", "a ··· b", "a »»· b"),
        ("aa", "aaaa", "···a"),
    ],
)
def test_a_tokenizers_own_tokens_are_broken_visibly(token: str, text: str, harmless: str) -> None:
    assert defuse(text, [token]) == harmless
    # No character was put in that a normaliser could take out again.
    assert len(defuse(text, [token])) == len(text)


@given(messy, st.lists(st.text(min_size=2, max_size=4), max_size=3))
def test_no_token_of_the_tokenizer_survives(text: str, tokens: list[str]) -> None:
    defused = defuse(text + "".join(tokens) * 2, tokens)
    assert not any(token in defused for token in tokens)
    assert defuse(defused, tokens) == defused


# Tokens that are made of brackets and of what replaces them.
shaped = st.lists(st.text("<>[]‹›()|a·", min_size=2, max_size=4), max_size=3)


@given(st.text("<>[]‹›()|a·＜\u200b"), shaped)
def test_no_token_appears_by_replacing_another(text: str, tokens: list[str]) -> None:
    defused = defuse(text, tokens)
    assert not any(token in defused for token in tokens)
    assert defuse(defused, tokens) == defused


@given(messy)
def test_defused_text_has_nothing_left_to_defuse(text: str) -> None:
    assert defuse(defuse(text)) == defuse(text)


@given(messy)
def test_only_brackets_change(text: str) -> None:
    defused = defuse(text)
    assert len(defused) == len(text)
    changed = {(old, new) for old, new in zip(text, defused, strict=True) if old != new}
    assert changed <= {("<", "‹"), (">", "›"), ("[", "("), ("]", ")")}


@given(st.text(st.characters(exclude_characters="<>[]＜＞［］﹤﹥")))
def test_text_without_brackets_is_left_alone(text: str) -> None:
    assert defuse(text) == text


@given(st.text("ab 01+-*/=<>|[](){}\\$.,\n"))
def test_formulas_are_left_alone(text: str) -> None:
    """Only the forms with a bar at a bracket's inside are taken for control tokens."""
    if "<|" not in text and "|>" not in text:
        assert defuse(text) == text


@pytest.mark.parametrize(
    "piece",
    ["<", " ", "< ", "<answer", "<answer ", "</", "<a", "<<a>", "<a>>", "[A", "<think>", "<|", "<|a", "|>", "</ ",
     "<s>", "<attempt x=", "<attempt x", "<attempt a=b>>", "＜", "\u200b", "[INST", "@", "é"],
)  # fmt: skip
def test_defusing_takes_time_linear_in_the_text(piece: str) -> None:
    """A quadratic scan of these 100,000 characters takes most of a minute; a linear one, milliseconds."""
    many = piece * (100_000 // len(piece))
    began = time.process_time()
    defuse(f"<{many}")
    defuse(many + ">" * 10_000, ["@@", "<|x|>"])
    assert time.process_time() - began < 5
