"""Short stories: someone, somewhere, wants something; something happens; it ends.

Takes: a random generator.  Returns: one story of five to eight sentences.
Must not know: the other kinds.
"""

from __future__ import annotations

import random

from .words import ADJECTIVES, ANIMALS, COLORS, DAYS, FOODS, HE, MOODS, PLACES, SHE, THINGS, WEATHER, a, capital

OPENINGS = (
    "One {weather} {day}, {name} walked to the {place}.",
    "{name} lived near the {place}, in a house with {a_color} door.",
    "There was once a {job} called {name}, who was always {mood}.",
    "On {day} morning {name} woke up early and felt {mood}.",
    "It was {a_weather} evening, and {name} sat alone in the {place}.",
    "Every {day}, {name} carried some {food} to the {place}.",
    "Nobody in the {place} knew {name}, the new {job}.",
    "Long ago, {a_mood} {job} named {name} came to the {place}.",
)
WISHES = (
    "{He} was looking for {a_thing}.",
    "{He} wanted to find {a_thing} for {his} {relative}.",
    "{His} {relative} had asked {him} to bring {a_thing} home.",
    "{He} had lost {a_thing}, and {he} missed it very much.",
    "For many years {he} had dreamed of {a_thing}.",
    "{He} hoped to trade some {food} for {a_thing}.",
    "In {his} pocket {he} kept {a_thing}, which {his} {relative} had made.",
)
SIGHTS = (
    "The {place2} was {adjective} and {adjective2}, and the air smelled of {food}.",
    "Outside, the wind moved over the {place2}.",
    "{A_animal} slept under {a_adjective} tree.",
    "The road to the {place2} was longer than {he} remembered.",
    "Somewhere in the {place2} a bell was ringing.",
    "The sky turned {color}, and the first stars came out.",
)
EVENTS = (
    "Near the {place2} {he} met {a_animal} that would not move.",
    "Suddenly {a_color} {animal} jumped out of the {thing2}.",
    "Behind the {place2} {he} found {a_adjective} {thing2} full of {food}.",
    "Then the rain began, and {he} had to wait in the {place2}.",
    "An old {job2} stopped {him} and pointed at the {place2}.",
    "But the {thing2} fell into the water and was gone.",
    "A {job2} from the {place2} offered {him} some {food} and {a_thing2}.",
    "At the {place2} the {animal} was already waiting for {him}.",
)
SPEECH = (
    '"Have you seen the {thing}?" {he} asked. "{answer}," said the {other}.',
    '"This {thing2} is for you," said the {other}. {name} was {mood2}.',
    '"{answer}," the {other} said, and {name} began to laugh.',
    '"I am {mood2} today," {he} said. "{answer}," said the {other}.',
    '"Do not be {mood2}," whispered the {other}. "{answer}."',
)
ANSWERS = (
    "Look behind the {place2}",
    "I left it near the {place2}",
    "Nobody has seen it since {day2}",
    "It belongs to the {job2}",
    "You will need {a_adjective} {thing2}",
    "Come back on {day2}",
    "Give me some {food} first",
    "The {animal} took it",
)
ACTIONS = (
    "So {name} climbed over the wall and ran to the {place2}.",
    "{He} put the {thing2} into {his} bag and went on.",
    "{He} shared the {food} with the {other}, and they sat down together.",
    "After a while {he} opened the {thing2} very slowly.",
    "{name} thought about it for a long time.",
    "Together they searched the whole {place2} until night.",
    "{He} followed the {animal} across the {place2}.",
)
ENDINGS = (
    "In the end {he} found the {thing} and went home {mood2}.",
    "Since that day, {name} and the {other} have been friends.",
    "{He} never found the {thing}, but {he} was not {mood2} any more.",
    "That night {name} slept well, with the {thing} beside {him}.",
    "When {he} told {his} {relative} about it, nobody believed {him}.",
    "And the {thing} still stands in the {place}, {adjective} and {color}.",
    "On {day2} {he} came back with {a_adjective} {thing2} and said thank you.",
)
JOBS = "baker carpenter doctor farmer fisher gardener king miller painter sailor singer smith teacher".split()
RELATIVES = "aunt brother cousin daughter father grandfather mother neighbour sister son uncle".split()


def make(rng: random.Random) -> str:
    """One story."""
    slots = _slots(rng)
    sentences = [rng.choice(OPENINGS), rng.choice(WISHES)]
    sentences += [rng.choice(SIGHTS)] if rng.random() < 0.6 else []
    sentences += [rng.choice(EVENTS)]
    middle = [rng.choice(SPEECH), rng.choice(ACTIONS)]
    rng.shuffle(middle)
    sentences += middle[: rng.choice((1, 2, 2))]
    sentences += [rng.choice(ENDINGS)]
    # Twice, as an answer has slots of its own.
    return " ".join(capital(sentence.format_map(slots).format_map(slots)) for sentence in sentences)


def _slots(rng: random.Random) -> dict[str, str]:
    """What fills the braces: the same all through one story."""
    she = rng.random() < 0.5
    he, him, his = ("she", "her", "her") if she else ("he", "him", "his")
    slots = {"name": rng.choice(SHE if she else HE), "he": he, "him": him, "his": his}
    slots |= {"He": capital(he), "His": capital(his)}
    for word, choices in {"thing": THINGS, "place": PLACES, "job": JOBS, "day": DAYS, "mood": MOODS}.items():
        slots[word], slots[f"{word}2"] = rng.sample(choices, 2)
    slots["adjective"], slots["adjective2"] = rng.sample(ADJECTIVES, 2)
    slots |= {"animal": rng.choice(ANIMALS), "color": rng.choice(COLORS), "food": rng.choice(FOODS)}
    slots |= {"weather": rng.choice(WEATHER), "relative": rng.choice(RELATIVES), "answer": rng.choice(ANSWERS)}
    slots["other"] = rng.choice((slots["animal"], slots["job2"]))
    for word in ("weather", "color", "thing", "thing2", "animal", "adjective", "mood"):
        slots[f"a_{word}"] = a(slots[word])
    return slots | {"A_animal": capital(a(slots["animal"]))}
