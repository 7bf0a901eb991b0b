"""Conversations: two people ask and answer in turn.

Takes: a random generator.  Returns: one conversation of two to four exchanges, a line each turn.
Must not know: the other kinds.
"""

from __future__ import annotations

import random

from .words import ADJECTIVES, ANIMALS, CITIES, COLORS, DAYS, FOODS, MOODS, NAMES, PLACES, THINGS, WEATHER, a

GREETINGS = (
    ("Hello {b}, how are you today?", "I am {mood}, thank you. And you, {a}?"),
    ("Good morning, {b}.", "Good morning, {a}. What a {weather} day!"),
    ("Hi {b}, do you have a minute?", "Of course, {a}. What is it?"),
    ("{b}, can I ask you something?", "Yes, {a}, go on."),
)
# Question, then the answers that fit it.
EXCHANGES = (
    (
        "Have you seen my {adjective} {thing}?",
        ("Yes, your {thing} is in the {place}.", "No, I have not seen your {thing}.", "Is it the {color} {thing}?"),
    ),
    (
        "Where did you buy the {color} {thing}?",
        ("I bought it in {city}.", "My friend {c} gave it to me.", "At the {place}, last {day}."),
    ),
    (
        "How much is the {thing}?",
        ("The {thing} costs {n} euros.", "For you, {n} euros.", "It is not for sale, but the {thing2} is."),
    ),
    (
        "When does the train to {city} leave?",
        ("It leaves at {hour}.", "The train to {city} leaves at {hour} on {day}.", "Not before {hour}."),
    ),
    (
        "What is {m} plus {n}?",
        ("{m} plus {n} is {total}.", "That is {total}.", "Let me think. It is {total}."),
    ),
    (
        "Would you like some {food}?",
        ("Yes please, I love {food}.", "No thank you, but I would like some {food2}.", "Only with {food2}."),
    ),
    (
        "How was the weather in {city}?",
        ("It was {weather}, as always in {city}.", "On {day} it was {weather}.", "Better than here."),
    ),
    (
        "Who lives in the {adjective} house near the {place}?",
        ("{c} lives there with {a_animal}.", "Nobody since {c} moved to {city}.", "I think it is {c}."),
    ),
    (
        "Can you help me to carry {a_thing} to the {place}?",
        ("I can help you on {day}.", "Sorry, I am too {mood} today.", "Yes, but the {thing} looks {adjective}."),
    ),
    (
        "Why are you so {mood}?",
        ("Because {c} lost my {thing}.", "I have to go to {city} on {day}.", "Because of the {animal} in the {place}."),
    ),
    (
        "Shall we meet at the {place} on {day}?",
        ("Yes, at {hour}.", "On {day} I must help {c}.", "I would like that. I will bring some {food}."),
    ),
    (
        "Do you know {c}?",
        ("{c} is my neighbour.", "Yes, {c} works at the {place}.", "Is that the one with the {animal}?"),
    ),
)
GOODBYES = (
    ("Thank you, {b}.", "You are welcome, {a}."),
    ("See you on {day}, {b}.", "Goodbye, {a}."),
    ("That is good to know.", "Say hello to {c}."),
    ("I must go now.", "Then until {day}, {a}."),
)


def make(rng: random.Random) -> str:
    """One conversation."""
    names = rng.sample(NAMES, 3)
    people = dict(zip("abc", names))
    turns: list[str] = []
    if rng.random() < 0.7:
        turns += _filled(rng, rng.choice(GREETINGS), people)
    for question, answers in rng.sample(EXCHANGES, rng.choice((1, 2, 2, 3))):
        turns += _filled(rng, (question, rng.choice(answers)), people)
    turns += _filled(rng, rng.choice(GOODBYES), people)
    return "\n".join(f"{names[place % 2]}: {turn}" for place, turn in enumerate(turns))


def _filled(rng: random.Random, turns: tuple[str, str], people: dict[str, str]) -> list[str]:
    """A question and its answer about the same things."""
    m, n = rng.randint(2, 20), rng.randint(2, 20)
    thing, thing2 = rng.sample(THINGS, 2)
    food, food2 = rng.sample(FOODS, 2)
    animal = rng.choice(ANIMALS)
    slots = people | {
        "thing": thing, "thing2": thing2, "a_thing": a(thing), "food": food, "food2": food2,
        "animal": animal, "a_animal": a(animal), "color": rng.choice(COLORS), "city": rng.choice(CITIES),
        "day": rng.choice(DAYS), "mood": rng.choice(MOODS), "place": rng.choice(PLACES),
        "adjective": rng.choice(ADJECTIVES), "weather": rng.choice(WEATHER), "hour": _hour(rng),
        "m": m, "n": n, "total": m + n,
    }  # fmt: skip
    return [turn.format_map(slots) for turn in turns]


def _hour(rng: random.Random) -> str:
    return f"{rng.randint(6, 21)}:{rng.choice(('00', '15', '30', '45'))}"
