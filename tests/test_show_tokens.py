"""Coloured text: kinds, escapes, split characters, and the same HTML each time."""

from html.parser import HTMLParser

import pytest

from mtp_tutorial.records import KINDS, Generation, Round
from mtp_tutorial.show.colors import LOOKS, TOKENS, look, token_look
from mtp_tutorial.show.spans import spans
from mtp_tutorial.show.tokens import rich_legend, rich_piece, rich_tokens, show_pieces, show_tokens

BAD = "\ufffd"


def generation(pieces=("上海", "看", "朋友", "去"), text=None):
    rounds = (
        Round(0, 0, (1,), ("prefill",), cache_written=5, cache_after=5),
        Round(0, 1, (2, 3, 4), ("accepted", "accepted", "recovered"), (2, 3, 9), (1.0, 1.0, 1.0), (0.9, 0.8, 0.125),
              (0.5, 0.25, 0.75), (0.1, 0.2, 0.3, 0.4), 2, 5, 9, 8),
    )  # fmt: skip
    pieces = tuple(pieces)
    return Generation([1, 2, 3, 4], "".join(pieces) if text is None else text, rounds, (7,) * 5, pieces=pieces)


class Text(HTMLParser):
    """Collects the visible text, the classes and the titles; fails on tags that do not close."""

    def __init__(self):
        super().__init__()
        self.text, self.classes, self.titles, self.open = "", [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.classes.append(attrs.get("class"))
        self.titles.append(attrs.get("title"))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parse(html):
    page = Text()
    page.feed(html)
    assert page.open == []
    return page


def test_every_kind_has_a_look_of_its_own():
    assert set(KINDS) <= set(LOOKS)
    assert len({x.color for x in LOOKS.values()}) == len(LOOKS)
    text_looks = [(look(kind).underline, look(kind).letter) for kind in (*KINDS, "rejected", "draft")]
    assert len(set(text_looks)) == len(text_looks), "told apart without colour"
    assert len(set(TOKENS)) == len({hatch for _, hatch in TOKENS}) and token_look(8) == token_look(0)
    with pytest.raises(ValueError, match="accepted"):
        look("akzeptiert")


def test_html_holds_kinds_titles_and_legend():
    page = parse(show_tokens(generation(), legend=True)._repr_html_())
    assert page.text.startswith("上海P看朋友去R")
    assert page.classes[1:4] == ["mtp-prefill", None, "mtp-accepted"]
    assert "accepted, round 1, draft position 1: p(d) = 0.900, q(d) = 1.000, coin = 0.500" in page.titles
    assert "recovered, round 1; the rejected draft had p(d) = 0.125, q(d) = 1.000, coin = 0.750" in page.titles
    assert LOOKS["recovered"].sentence in page.text and LOOKS["bonus"].sentence not in page.text


def test_letters_are_as_legible_as_the_text_on_a_light_page_and_on_a_dark_one():
    html = show_pieces(["a", "b"], ["recovered", "rejected"], legend=False)._repr_html_()
    assert "color:" not in html.replace("background:", ""), "ink is the page's"
    assert "text-decoration:line-through;" in html, "and so is the stroke through it"


def test_details_can_be_left_out_and_html_is_the_same_each_time():
    html = show_tokens(generation(), details=False, legend=False)._repr_html_()
    assert "0.9" not in html and "mtp-legend" not in html
    assert show_tokens(generation())._repr_html_() == show_tokens(generation())._repr_html_()


def test_everything_is_escaped():
    view = show_pieces(["<script>", '&"', "a\n\tb"], ["plain", "accepted", "bonus"], ['"><b>', "", ""])
    html = view._repr_html_()
    assert "<script>" not in html and '"><b>' not in html
    page = parse(html)
    assert page.text.startswith('<script>&"a↵→\tbB') and '"><b>' in page.titles
    assert "<br>" in html


def test_plain_text_fallbacks():
    view = show_tokens(generation())
    assert str(view) == "上海[P]看朋友去[R]"
    assert repr(view) == "<4 tokens: 2 accepted, 1 recovered, 1 prefill>"


def test_bars_between_rounds():
    assert parse(show_tokens(generation(), rounds=True)._repr_html_()).text.count("¦") == 1


@pytest.mark.parametrize(
    ("pieces", "text", "wanted"),
    [
        (["a", "b"], "ab", [(0, 1, "a"), (1, 2, "b")]),
        (["I ", BAD, BAD, "!"], "I 看!", [(0, 1, "I "), (1, 3, "看"), (3, 4, "!")]),
        ([BAD, BAD], "看", [(0, 2, "看")]),
        ([BAD, BAD, BAD, BAD], "看海", [(0, 4, "看海")]),
        (["x", BAD], "x" + BAD, [(0, 1, "x"), (1, 2, BAD)]),  # the text ends inside a character
        (["x", BAD, "<eos>"], "x看", [(0, 1, "x"), (1, 2, "看"), (2, 3, "<eos>")]),
        (["Hello", "world", "<eos>"], "Hello world", [(0, 1, "Hello"), (1, 2, " world"), (2, 3, "<eos>")]),
        ([" " + BAD, BAD + "a", "b"], " 看ab", [(0, 2, " 看a"), (2, 3, "b")]),
        ([BAD, ""], None, [(0, 2, BAD)]),
        (["I ", "", "看", "!"], None, [(0, 1, "I "), (1, 3, "看"), (3, 4, "!")]),  # a start without text of its own
        (["a", ""], None, [(0, 1, "a"), (1, 2, "")]),
        (["x" + BAD, BAD], None, [(0, 2, "x" + BAD + BAD)]),
        (["a", BAD], "stopped early: other text", [(0, 1, "a"), (1, 2, "stopped early: other text")]),
        ([], "", []),
    ],
)
def test_split_characters_are_put_together(pieces, text, wanted):
    assert [tuple(s) for s in spans(pieces, text)] == wanted


def test_a_character_of_two_kinds_shows_both():
    view = show_tokens(generation(["a", BAD, BAD, BAD], "a看"))
    assert [m.kinds for m in view.marks] == [("prefill",), ("accepted", "accepted", "recovered")]
    page = parse(view._repr_html_())
    assert "mtp-accepted-recovered" in page.classes and page.text.startswith("aP看R")
    assert any(title and "accepted, round 1" in title and "recovered" in title for title in page.titles)


def test_without_pieces_the_ids_stand_in():
    g = Generation([1, 2], "上海", (Round(0, 0, (1, 2), ("prefill", "plain")),))
    assert str(show_tokens(g)) == "[1][P][2]"


def test_hand_written_tokens_are_checked():
    with pytest.raises(ValueError, match="2 pieces, 1 kinds"):
        show_pieces(["a", "b"], ["plain"])
    with pytest.raises(ValueError, match="unknown kind"):
        show_pieces(["a"], ["good"])


def test_the_terminal_gets_styles_and_letters():
    text = rich_tokens(generation())
    assert text.plain == "上海看朋友去"
    assert [str(s.style) for s in text.spans][1] == look("accepted").terminal
    assert rich_tokens(generation(), letters=True).plain == "上海[P]看朋友去[R]"
    assert rich_piece("x", "bonus", letters=True).plain == "x[B]"
    assert rich_legend().plain == "accepted  recovered  bonus  prefill  plain"


def test_square_brackets_are_no_markup_in_the_terminal():
    from rich.console import Console

    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(rich_piece("[bold]x[/bold]", "plain"))
    assert capture.get().strip() == "[bold]x[/bold]"


def test_a_letter_stands_before_the_line_break():
    html = show_pieces(["a\n", "b"], ["recovered", "bonus"])._repr_html_()
    first = html[: html.index("<br>")]
    assert first.endswith("R</sup>") and "B</sup>" not in first
