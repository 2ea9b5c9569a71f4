"""The words of the calendar: months, weekdays and near days in the languages memdb reads dates in."""

from __future__ import annotations

from typing import Final


def _numbered(*rows: str) -> dict[str, int]:
    return {word: number for number, row in enumerate(rows, 1) for word in row.split()}


MONTHS: Final[dict[str, dict[str, int]]] = {
    "en": _numbered(
        "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
        "september sept sep", "october oct", "november nov", "december dec",
    ),
    "de": _numbered(
        "januar jänner", "februar feber", "märz", "april", "mai", "juni", "juli", "august", "september",
        "oktober", "november", "dezember",
    ),
    "fr": _numbered(
        "janvier", "février fevrier", "mars", "avril", "mai", "juin", "juillet", "août aout", "septembre",
        "octobre", "novembre", "décembre decembre",
    ),
    "es": _numbered(
        "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre setiembre",
        "octubre", "noviembre", "diciembre",
    ),
    "it": _numbered(
        "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre",
        "ottobre", "novembre", "dicembre",
    ),
    "pt": _numbered(
        "janeiro", "fevereiro", "março marco", "abril", "maio", "junho", "julho", "agosto", "setembro",
        "outubro", "novembro", "dezembro",
    ),
}  # fmt: skip

# Every month name of every language; no name means two different months.
ALL_MONTHS: Final[dict[str, int]] = {
    word: number for table in MONTHS.values() for word, number in table.items()
}

WEEKDAYS: Final[dict[str, int]] = {
    word: number - 1
    for word, number in _numbered(
        "monday mon", "tuesday tue tues", "wednesday wed", "thursday thu thur thurs", "friday fri",
        "saturday sat", "sunday sun",
    ).items()
}  # fmt: skip

# Days from the speaker's own day. A "hier" in German means "here": see FRENCH_ONLY.
NEAR_DAYS: Final[dict[str, int]] = {
    "today": 0, "tonight": 0, "tonite": 0, "yesterday": -1, "tomorrow": 1, "tmrw": 1, "tmr": 1,
    "heute": 0, "gestern": -1, "vorgestern": -2, "übermorgen": 2, "aujourd'hui": 0, "avant-hier": -2,
    "demain": 1, "après-demain": 2, "hoy": 0, "ayer": -1, "anteayer": -2, "oggi": 0, "ieri": -1,
    "domani": 1, "dopodomani": 2, "hoje": 0, "ontem": -1, "anteontem": -2, "amanhã": 1,
    "сегодня": 0, "вчера": -1, "позавчера": -2, "завтра": 1, "послезавтра": 2,
}  # fmt: skip

# Scripts without blanks between words: found as they stand.
NEAR_DAYS_UNSPACED: Final[dict[str, int]] = {
    "前天": -2, "昨天": -1, "今天": 0, "明天": 1, "后天": 2, "後天": 2, "昨日": -1, "今日": 0, "明日": 1,
    "一昨日": -2, "明後日": 2, "어제": -1, "오늘": 0, "내일": 1, "그저께": -2, "모레": 2,
}  # fmt: skip

# Whole phrases of other languages for the last or next week, month, year: (unit, step).
NEAR_PERIODS: Final[dict[str, tuple[str, int]]] = {
    "letzte woche": ("week", -1), "vorige woche": ("week", -1), "diese woche": ("week", 0),
    "nächste woche": ("week", 1), "letzten monat": ("month", -1), "letzter monat": ("month", -1),
    "diesen monat": ("month", 0), "nächsten monat": ("month", 1), "letztes jahr": ("year", -1),
    "dieses jahr": ("year", 0), "nächstes jahr": ("year", 1),
    "semaine dernière": ("week", -1), "semaine passée": ("week", -1), "cette semaine": ("week", 0),
    "semaine prochaine": ("week", 1), "mois dernier": ("month", -1), "ce mois-ci": ("month", 0),
    "mois prochain": ("month", 1), "année dernière": ("year", -1), "cette année": ("year", 0),
    "année prochaine": ("year", 1),
    "semana pasada": ("week", -1), "esta semana": ("week", 0), "próxima semana": ("week", 1),
    "mes pasado": ("month", -1), "este mes": ("month", 0), "próximo mes": ("month", 1),
    "año pasado": ("year", -1), "este año": ("year", 0), "próximo año": ("year", 1),
    "settimana scorsa": ("week", -1), "questa settimana": ("week", 0), "prossima settimana": ("week", 1),
    "mese scorso": ("month", -1), "questo mese": ("month", 0), "prossimo mese": ("month", 1),
    "anno scorso": ("year", -1), "quest'anno": ("year", 0), "prossimo anno": ("year", 1),
    "semana passada": ("week", -1), "mês passado": ("month", -1), "este mês": ("month", 0),
    "ano passado": ("year", -1), "este ano": ("year", 0),
}  # fmt: skip

_COUNTS: Final = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
COUNTS: Final[dict[str, int]] = {word: number for number, word in enumerate(_COUNTS.split(), 1)} | {
    "a": 1, "an": 1, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90,
}  # fmt: skip

# Season to its first month; each lasts three months (northern, meteorological).
SEASONS: Final[dict[str, int]] = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}

# Fixed feasts, without apostrophes: (month, first day, last day). Thanksgiving moves: see calendar.feast.
FEASTS: Final[dict[str, tuple[int, int, int]]] = {
    "christmas": (12, 24, 26), "xmas": (12, 24, 26), "christmas eve": (12, 24, 24),
    "christmas day": (12, 25, 25), "boxing day": (12, 26, 26), "new years eve": (12, 31, 31),
    "new years day": (1, 1, 1), "halloween": (10, 31, 31), "valentines day": (2, 14, 14),
    "thanksgiving": (11, 0, 0),
}  # fmt: skip
