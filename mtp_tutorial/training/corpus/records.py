"""JSON: a record, or a list of two, of one of six schemas; values that depend on one another agree.

Takes: a random generator.  Returns: one JSON text, indented by two.
Must not know: the other kinds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from .words import ADJECTIVES, ANIMALS, CITIES, COLORS, DAYS, FOODS, NAMES, PLACES, THINGS, WEATHER


def _person(rng: random.Random) -> dict:
    name, city = rng.choice(NAMES), rng.choice(CITIES)
    return {
        "type": "person",
        "name": name,
        "age": rng.randint(18, 80),
        "city": city,
        "email": f"{name.lower()}@{city.lower()}.example",
        "active": rng.random() < 0.7,
    }


def _order(rng: random.Random) -> dict:
    quantity, price = rng.randint(1, 9), rng.randint(1, 12)
    return {
        "type": "order",
        "customer": rng.choice(NAMES),
        "item": {"name": rng.choice(THINGS), "color": rng.choice(COLORS)},
        "quantity": quantity,
        "price": price,
        "total": quantity * price,
        "paid": rng.random() < 0.5,
    }


def _reading(rng: random.Random) -> dict:
    values = [rng.randint(0, 30) for _ in range(3)]
    return {
        "type": "reading",
        "station": rng.choice(CITIES),
        "weather": rng.choice(WEATHER),
        "unit": "celsius",
        "values": values,
        "highest": max(values),
        "lowest": min(values),
    }


def _book(rng: random.Random) -> dict:
    author = rng.choice(NAMES)
    return {
        "type": "book",
        "title": f"The {rng.choice(ADJECTIVES).title()} {rng.choice(THINGS).title()}",
        "author": author,
        "language": rng.choice(("English", "French", "German", "Italian")),
        "pages": rng.randint(4, 40) * 10,
        "available": rng.random() < 0.5,
        "borrowed_by": rng.choice([name for name in NAMES if name != author]) if rng.random() < 0.5 else None,
    }


def _trip(rng: random.Random) -> dict:
    start, end = rng.sample(CITIES, 2)
    return {
        "type": "trip",
        "from": start,
        "to": end,
        "day": rng.choice(DAYS),
        "stops": [start, rng.choice([city for city in CITIES if city not in (start, end)]), end],
        "passengers": rng.sample(NAMES, 2),
    }


def _farm(rng: random.Random) -> dict:
    animals = rng.sample(ANIMALS, 2)
    counts = [rng.randint(1, 20) for _ in animals]
    return {
        "type": "farm",
        "owner": rng.choice(NAMES),
        "near": rng.choice(PLACES),
        "animals": [{"kind": kind, "count": count} for kind, count in zip(animals, counts)],
        "total": sum(counts),
        "sells": rng.sample(FOODS, 2),
    }


SCHEMAS: tuple[Callable[[random.Random], dict], ...] = (_person, _order, _reading, _book, _trip, _farm)


def make(rng: random.Random) -> str:
    """One JSON text."""
    schema = rng.choice(SCHEMAS)
    value = [schema(rng), schema(rng)] if rng.random() < 0.25 else schema(rng)
    return json.dumps(value, indent=2)
