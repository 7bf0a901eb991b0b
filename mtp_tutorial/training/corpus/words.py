"""The words that all kinds of text share.

Takes: nothing.  Returns: lists of words, and two small rules of English.
Must not know: templates.
"""

from __future__ import annotations

SHE = "Anna Clara Dora Emma Fiona Greta Hanna Iris Julia Karin Lena Maria Nora Olga Paula Rosa Sofia Vera".split()
HE = "Adam Ben Carl David Emil Felix Georg Hugo Ivan Jonas Karl Leo Max Nils Oscar Peter Robin Tom".split()
NAMES = SHE + HE
CITIES = "Bergen Bern Bologna Bremen Delft Dresden Genoa Ghent Graz Krakow Leeds Lyon Oslo Porto Riga Turin".split()
COLORS = "black blue brown golden green grey orange purple red silver white yellow".split()
ANIMALS = "cat crow dog donkey duck fox frog goat goose hedgehog horse mouse owl pony rabbit sheep".split()
THINGS = (
    "apple basket bell bicycle blanket boat book bottle box brush bucket button candle chair clock coat coin cup "
    "drum envelope flute hammer hat jar kettle key kite ladder lamp letter map mirror needle notebook pen pillow "
    "plate ring rope scarf shell shoe spoon stone suitcase table ticket umbrella violin watch whistle"
).split()
FOODS = "bread butter cheese honey jam milk noodles pears plums rice salad salt soup sugar tea".split()
PLACES = (
    "attic bakery barn beach bridge castle cellar church field forest garden harbour hill island kitchen lake "
    "library market meadow mill museum orchard park river school shop square station tower valley village workshop"
).split()
ADJECTIVES = (
    "ancient bright broken clean clever cold crooked curious dark dusty empty famous gentle heavy hidden little "
    "lonely narrow old plain pretty quiet round rusty shiny simple small soft strange strong tall tiny warm wooden"
).split()
MOODS = "angry brave calm careful cheerful curious glad happy hungry nervous patient proud sad sleepy tired".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WEATHER = "clear cloudy cold dry foggy rainy snowy stormy sunny warm wet windy".split()


def a(words: str) -> str:
    """The words with their article: 'an old map', 'a map'."""
    return ("an " if words[0].lower() in "aeio" or words.startswith("um") else "a ") + words


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[0].upper() + text[1:]
