"""Units of answers: what `2.5 \\mathrm{~m} / \\mathrm{s}^{2}` or "12 square meters" is measured in.

A unit is a scale and the powers of base units, so that 100 cm is 1 m, and cm^3 is not cm^2. Where a spelling
could be variables as well ("3 m"), compare.py asks only where the formula reading found no agreement.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


class Unit(NamedTuple):
    """`scale` of one, in the base units of `powers`: ((base, exponent), ...), sorted."""

    scale: Fraction
    powers: tuple[tuple[str, int], ...]


PREFIXES = {"k": 3, "M": 6, "G": 9, "T": 12, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12, "f": -15}
# symbol: (scale, powers of base units); prefixes go with the first group only
SYMBOLS = {
    "m": ("1", {"m": 1}),
    "g": ("0.001", {"kg": 1}),
    "s": ("1", {"s": 1}),
    "A": ("1", {"A": 1}),
    "K": ("1", {"K": 1}),
    "mol": ("1", {"mol": 1}),
    "L": ("0.001", {"m": 3}),
    "l": ("0.001", {"m": 3}),
    "N": ("1", {"kg": 1, "m": 1, "s": -2}),
    "J": ("1", {"kg": 1, "m": 2, "s": -2}),
    "W": ("1", {"kg": 1, "m": 2, "s": -3}),
    "Pa": ("1", {"kg": 1, "m": -1, "s": -2}),
    "Hz": ("1", {"s": -1}),
    "C": ("1", {"A": 1, "s": 1}),
    "V": ("1", {"kg": 1, "m": 2, "s": -3, "A": -1}),
    "F": ("1", {"kg": -1, "m": -2, "s": 4, "A": 2}),
    "ohm": ("1", {"kg": 1, "m": 2, "s": -3, "A": -2}),
    "H": ("1", {"kg": 1, "m": 2, "s": -2, "A": -2}),
    "T": ("1", {"kg": 1, "s": -2, "A": -1}),
    "Wb": ("1", {"kg": 1, "m": 2, "s": -2, "A": -1}),
    "eV": ("1.602176634e-19", {"kg": 1, "m": 2, "s": -2}),
    "pc": ("3.0856775814913673e16", {"m": 1}),
    "yr": ("31557600", {"s": 1}),
    "cal": ("4.184", {"kg": 1, "m": 2, "s": -2}),
    "bar": ("100000", {"kg": 1, "m": -1, "s": -2}),
    "M": ("1000", {"mol": 1, "m": -3}),
    "Jy": ("1e-26", {"kg": 1, "s": -2}),
}
UNPREFIXED = {
    "erg": ("1e-7", {"kg": 1, "m": 2, "s": -2}),
    "dyn": ("1e-5", {"kg": 1, "m": 1, "s": -2}),
    "gauss": ("1e-4", {"kg": 1, "s": -2, "A": -1}),
    "angstrom": ("1e-10", {"m": 1}),
    "AU": ("149597870700", {"m": 1}),
    "lightyear": ("9460730472580800", {"m": 1}),
    "atm": ("101325", {"kg": 1, "m": -1, "s": -2}),
    "min": ("60", {"s": 1}),
    "hour": ("3600", {"s": 1}),
    "day": ("86400", {"s": 1}),
    "week": ("604800", {"s": 1}),
    "month": ("1", {"month": 1}),
    "year": ("31557600", {"s": 1}),
    "inch": ("0.0254", {"m": 1}),
    "foot": ("0.3048", {"m": 1}),
    "yard": ("0.9144", {"m": 1}),
    "mile": ("1609.344", {"m": 1}),
    "mph": ("0.44704", {"m": 1, "s": -1}),
    "kph": ("5/18", {"m": 1, "s": -1}),
    "tonne": ("1000", {"kg": 1}),
    "lb": ("0.45359237", {"kg": 1}),
    "oz": ("0.028349523125", {"kg": 1}),
    "gallon": ("1", {"gallon": 1}),
    "cc": ("1e-6", {"m": 3}),
    "hectare": ("10000", {"m": 2}),
    "acre": ("4046.8564224", {"m": 2}),
    "dollar": ("1", {"dollar": 1}),
    "cent": ("0.01", {"dollar": 1}),
    "degree": ("1", {"degree": 1}),
    "arcmin": ("1/60", {"degree": 1}),
    "arcsec": ("1/3600", {"degree": 1}),
    "mas": ("1/3600000", {"degree": 1}),
    "rpm": ("1", {"rpm": 1}),
}
# Each its own base: what they are in others is not wanted, or not fixed
OPAQUE = """rad sr celsius fahrenheit percent euro sterling yen rupee M_sun L_sun R_sun M_earth R_earth mmHg psi dB bit
byte mag ppm hp knot unit person child man woman integer way point student solution"""
ALIASES = {
    spelling: words.split()[0]
    for words in (
        "m meter meters metre metres",
        "cm centimeter centimeters centimetre centimetres cms",
        "mm millimeter millimeters millimetre millimetres",
        "km kilometer kilometers kilometre kilometres kms",
        "um micrometer micrometers micron microns",
        "nm nanometer nanometers nanometre nanometres",
        "g gram grams gm gms",
        "kg kilogram kilograms kgs kilo kilos",
        "mg milligram milligrams",
        "s second seconds sec secs",
        "ms millisecond milliseconds",
        "min minute minutes mins",
        "hour hours hr hrs h",
        "day days",
        "week weeks",
        "month months",
        "year years yrs",
        "L liter liters litre litres",
        "mL milliliter milliliters millilitre millilitres ml",
        "N newton newtons",
        "J joule joules",
        "kJ kilojoule kilojoules",
        "W watt watts",
        "kW kilowatt kilowatts",
        "Pa pascal pascals",
        "Hz hertz",
        "C coulomb coulombs",
        "V volt volts",
        "A ampere amperes amp amps",
        "K kelvin kelvins",
        "F farad farads",
        "T tesla teslas",
        "ohm ohms Ohm Ohms",
        "mol mole moles",
        "eV electronvolt electronvolts",
        "pc parsec parsecs",
        "cal calorie calories",
        "erg ergs",
        "dyn dyne dynes",
        "gauss G",
        "angstrom angstroms Angstrom Angstroms",
        "AU au",
        "lightyear lightyears ly",
        "atm atmosphere atmospheres",
        "inch inches in",
        "foot feet ft",
        "yard yards yd yds",
        "mile miles mi",
        "kph kmph kmh",
        "tonne tonnes",
        "lb lbs pound pounds",
        "oz ounce ounces",
        "gallon gallons gal",
        "hectare hectares ha",
        "acre acres",
        "dollar dollars usd USD bucks",
        "cent cents",
        "euro euros EUR",
        "degree degrees deg",
        "arcmin arcminute arcminutes",
        "arcsec arcsecond arcseconds",
        "rad radian radians",
        "sr steradian steradians",
        "percent pct",
        "unit units",
        "person people persons",
        "child children",
        "man men",
        "woman women",
        "integer integers",
        "mag magnitude magnitudes",
        "hp horsepower",
        "knot knots",
        "rupee rupees Rs",
        "rpm RPM",
        "bit bits",
        "byte bytes",
    )
    for spelling in words.split()
}
# Words that end in s and name nothing that is counted; "33 plus", "33 is", "33 thousands"
NO_NOUNS = """plus minus less this does thus always perhaps unless besides across thousands hundreds millions billions
tens dozens halves thirds quarters fifths sixths sevenths eighths ninths tenths hundredths thousandths others guesses"""
NOUN_LEADS = "distinct different possible total positive real ordered such whole prime unique"
AREAS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
AFTER = {"squared": 2, "cubed": 3}
# Names in LaTeX, spelt as words before the tokens are read
NAMED = (
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?\s*(?:\\text\{\s*([CF])\s*\}|([CF]))(?![A-Za-z])"), None),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?"), " degree "),
    (re.compile(r"\^\s*\{?\s*(?:\\prime\s*\\prime|'')\s*\}?|''"), " arcsec "),
    (re.compile(r"\^\s*\{?\s*(?:\\prime|')\s*\}?|'"), " arcmin "),
    (re.compile(r"(?:\\text\{)?([MLR])\}?_\s*\{?\s*(?:\\text\{)?(?:\\odot|[sS]un)\s*\}?\s*\}?"), r" \1_sun "),
    (re.compile(r"(?:\\text\{)?([MR])\}?_\s*\{?\s*\\(?:oplus|text\{Earth\})\s*\}?"), r" \1_earth "),
    (re.compile(r"(?:\\text\{\s*)?\\mu\s*\}?\s*(?:\\text\{\s*)?([mgsJWVACFLN])(?![A-Za-z])\}?"), r" u\1 "),
    (re.compile(r"\\(?:text\{\\)?AA\}?|\\text\{\\AA\s*\}"), " angstrom "),
    (re.compile(r"([kM]?)(?:\\text\{\s*)?\\Omega\s*\}?"), r" \1ohm "),
    (re.compile(r"\\?%"), " percent "),
    (re.compile(r"[Dd]egrees?\s+[Cc]elsius"), " celsius "),
    (re.compile(r"[Dd]egrees?\s+[Ff]ahrenheit"), " fahrenheit "),
    (re.compile(r"[Ss]olar mass(?:es)?"), " M_sun "),
    (re.compile(r"[Ss]olar luminosit(?:y|ies)"), " L_sun "),
    (re.compile(r"[Ss]olar radi(?:us|i)"), " R_sun "),
    (re.compile(r"[Ll]ight[- ]years?"), " lightyear "),
)
TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z]+(?:_(?:sun|earth))?)\.?|\^\s*(?:\{\s*(?P<braced>[+-]?[0-9])\s*\}|(?P<bare>-?[0-9]))|"
    r"(?P<sign>/|\\cdot|\*|-|\(|\))|(?P<number>[0-9]))"
)


def name_latex(text: str) -> str:
    """Write the units that LaTeX has signs for as words, and take words out of \\text."""
    for pattern, word in NAMED:
        if word is None:
            text = pattern.sub(lambda m: " celsius " if "C" in (m[1], m[2]) else " fahrenheit ", text)
        else:
            text = pattern.sub(word, text)
    text = re.sub(r"\\frac\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1/(\2)", text)
    return re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)


@lru_cache(maxsize=4096)
def read_unit(text: str) -> Unit | None:
    """Return the unit that the whole of `text` names, else None."""
    text = name_latex(text).strip()
    position, tokens = 0, []
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            return None
        tokens.append(match)
        position = match.end()
    return _product(tokens) if tokens else None


def _product(tokens: list[re.Match[str]]) -> Unit | None:
    """Multiply the factors; all that follows "/" or "per" divides, as in J/kg K."""
    scale, powers = Fraction(1), {}
    side, area, last, described = 1, 1, None, False
    for token in tokens:
        word = token["word"]
        if word == "per" or token["sign"] == "/":
            side, last = -1, None
        elif word in AREAS:
            area = AREAS[word]
        elif word in NOUN_LEADS.split():
            described = True
        elif word in AFTER or token["braced"] or token["bare"]:
            if last is None:
                return None
            exponent = AFTER[word] if word in AFTER else int(token["braced"] or token["bare"])
            scale *= last[0].scale ** (last[1] * (exponent - 1))
            _add(powers, last[0], last[1] * (exponent - 1))
            last = None
        elif word:
            unit = named_unit(word)
            if unit is None or (described and len(word) < 4):
                return None
            last = (unit, side * area)
            scale *= unit.scale ** (side * area)
            _add(powers, unit, side * area)
            area = 1
        elif token["number"] or (token["sign"] in "()" and side > 0):
            return None
    if area != 1 or not any(token["word"] for token in tokens):
        return None
    return Unit(scale, tuple(sorted((base, power) for base, power in powers.items() if power)))


def _add(powers: dict[str, int], unit: Unit, times: int) -> None:
    for base, power in unit.powers:
        powers[base] = powers.get(base, 0) + power * times


@lru_cache(maxsize=1024)
def named_unit(word: str) -> Unit | None:
    """Return the unit of one word: a known unit, one with a prefix, or a plural noun that counts itself."""
    name = ALIASES.get(word) or ALIASES.get(word.lower() if len(word) > 3 else word) or word
    known = SYMBOLS.get(name) or UNPREFIXED.get(name)
    if known:
        return Unit(Fraction(known[0]), tuple(sorted(known[1].items())))
    if name in OPAQUE.split():
        return Unit(Fraction(1), ((name, 1),))
    symbol = SYMBOLS.get(name[1:]) if name[0] in PREFIXES else None
    if symbol:
        return Unit(Fraction(10) ** PREFIXES[name[0]] * Fraction(symbol[0]), tuple(sorted(symbol[1].items())))
    noun = name.lower()
    if len(noun) > 3 and noun.isalpha() and noun.endswith("s") and noun not in NO_NOUNS.split():
        return Unit(Fraction(1), ((noun.removesuffix("s"), 1),))
    return None
