"""Colours that are told apart without full colour vision: simulated sight, distances in Lab, a second sign beside."""

import itertools

import numpy as np
import pytest

from mtp_tutorial.show.colors import INK, LINES, LOOKS, TOKENS
from mtp_tutorial.show.picture import PAGE_STYLE
from mtp_tutorial.show.plots_cache import STATES
from mtp_tutorial.show.plots_case import _TARGETS as TARGETS
from mtp_tutorial.show.plots_decoding import AGREEMENT, PARTS, SECONDS
from mtp_tutorial.show.plots_head import _FILLS as FILLS
from mtp_tutorial.show.plots_laws import _LAWS as LAWS
from mtp_tutorial.show.plots_lossless import _SERIES as SERIES

# Linear RGB → what is left of it. Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
# Color Vision Deficiency", IEEE TVCG 15(6), 2009, table 1, severity 1.0.
SIGHT = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
# IEC 61966-2-1: linear sRGB → XYZ under the white point D65.
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color, sight):
    """``#RRGGBB`` as seen with that sight, in CIE L*a*b*."""
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(SIGHT[sight] @ linear, 0, 1) / XYZ.sum(1)
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, sight):
    """CIE 1976: the distance in Lab. About 2.3 is just noticeable side by side."""
    return float(np.linalg.norm(lab(one, sight) - lab(other, sight)))


def nearest(one, other):
    return min(distance(one, other, sight) for sight in SIGHT)


#: name → its (colour, second sign) pairs that stand side by side in one picture
SETS = {
    "lines": [(color, (marker, style)) for color, marker, style in LINES],
    "tokens": TOKENS,
    "cache slots": [look[:2] for look in STATES.values()],
    "parts of a round": PARTS,
    "two rules": [look[1:] for look in AGREEMENT.values()],
    "seconds": [look[1:] for look in SECONDS.values()],
    "parts of a head": list(FILLS.values()),
    "laws": LAWS,
    "series": SERIES,
    "targets": TARGETS,
}


@pytest.mark.parametrize("one, other", list(itertools.combinations(LOOKS, 2)))
def test_kinds_of_tokens_are_told_apart_with_any_sight_and_by_a_second_sign(one, other):
    first, second = LOOKS[one], LOOKS[other]
    assert nearest(first.color, second.color) >= 14
    assert first.marker != second.marker or {one, other} == {"prompt", "plain"}  # which are never marked
    assert first.hatch != second.hatch or {one, other} <= {"prompt", "target", "accepted"}, "told apart by their places"


@pytest.mark.parametrize("name", SETS)
def test_a_pair_that_is_close_for_some_sight_differs_in_its_second_sign(name):
    for (color, sign), (other, mark) in itertools.combinations(SETS[name], 2):
        assert sign != mark or nearest(color, other) >= 20, f"{color} and {other}, both {sign!r}"


@pytest.mark.parametrize("kind", [kind for kind, look in LOOKS.items() if look.letter or look.underline != "none"])
def test_letters_and_underlines_stand_out_from_the_page(kind):
    assert all(distance(LOOKS[kind].color, "#FFFFFF", sight) >= 35 for sight in SIGHT)
    assert all(distance(LOOKS[kind].color, INK, sight) >= 15 for sight in SIGHT)


def in_the_dark(color, amount=0.933):
    """What ``invert(amount) hue-rotate(180deg)`` makes of a colour. Ref: Filter Effects Module Level 1, chapter 10."""
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255 * (1 - 2 * amount) + amount
    turned = np.array([[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]]) @ rgb
    return "#" + "".join(f"{round(255 * x):02X}" for x in turned.clip(0, 1))


def contrast(one, other):
    """The ratio of WCAG 2, from 1 to 21: text needs 4.5, lines and shapes 3."""
    lighter, darker = sorted((((lab(color, "full")[0] + 16) / 116) ** 3 for color in (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_pictures_stay_legible_in_the_dark_theme():
    assert "filter: invert(.933) hue-rotate(180deg)" in PAGE_STYLE
    page = in_the_dark("#FFFFFF")
    assert page == "#111111", "the background of JupyterLab's dark theme, and of the site's dark pages"
    assert contrast(in_the_dark(INK), page) > 4.5 and contrast(INK, "#FFFFFF") > 4.5
    assert all(contrast(in_the_dark(color), page) > 3 for color, _, _ in LINES)


@pytest.mark.parametrize("name", SETS)
def test_colours_without_a_second_sign_are_told_apart_in_the_dark_too(name):
    for (color, sign), (other, mark) in itertools.combinations(SETS[name], 2):
        assert sign != mark or nearest(in_the_dark(color), in_the_dark(other)) >= 20, f"{color} and {other}"


def test_the_simulation_sees_what_it_should():
    assert distance("#D62728", "#2CA02C", "full") > 100, "red and green, far apart"
    assert distance("#D62728", "#2CA02C", "deuteranopia") < 10, "and not for who is green-blind: such a pair would fail"
    assert lab("#FFFFFF", "full") == pytest.approx([100, 0, 0], abs=0.05)
    for sight in SIGHT:
        assert lab("#777777", sight)[1:] == pytest.approx([0, 0], abs=0.1), "greys stay grey"
    assert np.allclose(np.sum(list(SIGHT.values()), axis=2), 1, atol=1e-5)
