"""The columns that identify people or records: by name, and by what their listed values look like.

The rules read a column of a schema, never a row of a table. They are heuristics: they leave a column out
when in doubt, and a person who declares the column by hand overrules them. The kinds of values follow the
identifiers of the HIPAA Safe Harbor rule, 45 CFR 164.514(b)(2)(i).
"""

import re
from collections import Counter
from collections.abc import Sequence

from tabsynth.drafting.catalogue import catalogue, words_of
from tabsynth.drafting.time_formats import reason_of_times, time_class
from tabsynth.schema.column import Column
from tabsynth.tables.frames import UNNAMED

NAMED = "its name is that of an identifier"
ROW_NAMES = "it holds names of rows, as R writes them"
LOOK_LIKE_IDENTIFIERS = "its values look like identifiers"
RECORD_NUMBERS = "nearly all of its whole numbers differ, as record numbers do"
# Reasons of private drafts for columns that may say which rows are of one person: not of numbers of which nearly all differ.
IDENTIFIERS = frozenset({NAMED, LOOK_LIKE_IDENTIFIERS})
ALL_DIFFERENT = 0.98  # of the rows: different whole numbers, as record numbers are
MOST_NOISE = (
    0.08  # of the rows: by so much noise may make up for different numbers that are missing
)
FEW = 24  # a column of at most this many categories may be a list of codes, whatever their form
MAX_DRAFTED_CATEGORIES = 1_000
NAMES_FROM = 50  # so many categories of two to four capitalised words are names of persons
LONG = 7  # digits of a record number
LOOKED_AT = 200  # characters of a name or a category: files may hold very long ones
NAMES, PROSE = "names of persons", "free text"
# Of more than a few listed texts: the share that looks like it, from which a column is left out.
_LEAST_SHARES = {"record numbers": 0.5, "addresses": 0.5, NAMES: 0.8, PROSE: 0.5}

# A word of a column's name that is enough by itself, wherever it stands, or as the last one.
ANYWHERE = re.compile(
    "mrn|ssn|nhs|npi|email|phone|telephone|telefon|mobile|fax|uuid|guid|url|website|homepage|passport|iban"
    "|username|login|surname|forename|firstname|lastname|fullname|nickname|vorname|nachname|apellidos?|prenom"
    "|cognome|dob|birthdate|birthday|geburtsdatum|address|street|adresse|strasse|anschrift|signature"
    "|fingerprint|freetext"
)
LAST = re.compile("mail|tel|uri|ip|ids?|uid|pid|identifier|notes|comments?|remarks")
# Words that say that such a column is about an identifier, and does not hold one.
ABOUT_FIRST = re.compile("has|is|num|number|n|count")
ABOUT_LAST = re.compile(
    "type|flag|service|consent|verified|counts?|status|year|missing|known|available|preference|preferred"
    "|class|category|group|kind|source|length|score|change|method|present"
)
# Whose name or number a column holds, in front of "name", "id", "nbr", "number", …
PEOPLE = (
    "patient|person|people|subject|participant|respondent|member|customer|client|user|employee|staff|student"
    "|pupil|applicant|donor|doctor|physician|nurse|provider|mother|father|parent|child|spouse|contact"
    "|guardian|emergency"
)
RECORDS = (
    "encounter|visit|admission|stay|hadm|episode|case|record|chart|claim|order|account|transaction|invoice"
    "|household|family|serial|sample|specimen|accession|policy|insurance|licence|license|security|document"
    "|session|device|card|passport|phone|row|study|medical|unique"
)
NUMBER = "ids?|nbr|nr|no|num|numbers?|key|ref|reference|identifier"
NAME = "first|last|middle|given|family|full|maiden|nick|sur|fore|user|legal|birth|display"
_OF_ONE = re.compile(
    rf".*({PEOPLE}|{RECORDS})({NUMBER})|id({PEOPLE}|encounter|visit|case)|.*({PEOPLE}|{NAME})names?|names?"
    r"|.*(dateofbirth|birthdate|birthday|socialsecurity\w*)|.*(patienten|kunden|personen|fall)nummer"
)
_TIMES = re.compile(
    "dates?|times?|datetime|timestamps?|ts|epoch|unix|at|day|datum|zeit|fecha|created|updated|modified|dt"
)
_CODES = re.compile(r"ids?|codes?|type|category|class|group|kind|status")
_LIST_PERHAPS = re.compile(rf"{NUMBER}|names?|note|text|description")

# One such text among the categories is enough.
_FORMS = (
    ("e-mail addresses", re.compile(r"[^\s@]@[^\s@]+\.[^\s@]")),
    ("web addresses", re.compile(r"(?i)\b(https?|ftp)://|\bwww\.")),
    ("UUIDs", re.compile(r"(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|^[0-9a-f]{32}$")),
    (
        "IP addresses",
        re.compile(r"^(\d{1,3}\.){3}\d{1,3}$|(?i:^([0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}$)"),
    ),
    ("social security numbers", re.compile(r"^\d{3}-\d{2}-\d{4}$")),
    ("card numbers", re.compile(r"^\d{4}([ -]\d{4}){3}$")),
    ("coordinates", re.compile(r"^-?\d{1,3}\.\d{3,}[,; ]+-?\d{1,3}\.\d{3,}$")),
    ("account numbers", re.compile(r"^[A-Z]{2}\d{2}( [0-9A-Z]{4}){3,7}( [0-9A-Z]{1,4})?$")),
    (
        "telephone numbers",
        re.compile(
            r"^(\+?\d{1,3}[ .-])?\(?\d{2,4}\)?[ .-]+\d{3,4}[ .-]\d{3,4}$|^(\+|00)\d[\d ().-]{6,}\d$"
        ),
    ),
)
_ADDRESS = re.compile(
    r"(?i)\d{1,5}\w?,? .*\b(street|road|avenue|lane|boulevard|st|rd|ave|blvd)\b.*"
    r"|[\w. -]*(straße|strasse|str\.|gasse|allee|platz|weg) ?\d{1,4}\b.*|(rue|calle|avenida|rua) .*\d.*"
)
_RECORD = re.compile(
    rf".*\d{{{LONG},}}.*|[^\W\d_]{{1,6}}[-_ /#.]?\d{{5,}}\w?|(?=\w*\d)(?=\w*[^\W\d_])\w{{12,}}"
)


def named_for_one(name: str) -> bool:
    """Return whether a column's name says by itself that it identifies one person or one record."""
    words = _words(name)
    if not words or ABOUT_FIRST.fullmatch(words[0]) or ABOUT_LAST.fullmatch(words[-1]):
        return False
    if LAST.fullmatch(words[-1]) and (len(words) == 1 or words[-1] not in ("id", "ids")):
        return True
    return any(map(ANYWHERE.fullmatch, words)) or bool(_OF_ONE.fullmatch("".join(words)))


def reason_of_name(name: str) -> str | None:
    """Return why a column is left out by its name alone, in a clause; None if it is not."""
    if name == UNNAMED or "".join(words_of(name)) in ("rowname", "rownames"):
        return ROW_NAMES
    return NAMED if named_for_one(name) else None


def named_for_codes(name: str) -> bool:
    """Return whether a column's name says that its few whole numbers are codes, such as ``admission_type_id``."""
    words = _words(name)
    return bool(words) and _CODES.fullmatch(words[-1]) is not None


def named_for_time(name: str) -> bool:
    """Return whether a column's name says that it holds dates or times, such as ``created_at``."""
    return any(map(_TIMES.fullmatch, _words(name)))


def identifying_name(column: Column) -> str | None:
    """Return why the name of a column says that it identifies people or records, in a clause; None if it does not."""
    if (reason := reason_of_name(column.name)) is not None:
        return reason
    words = _words(column.name)
    perhaps = bool(words) and _LIST_PERHAPS.fullmatch(words[-1])
    if perhaps and (len(column.categories) or column.cells) > FEW:
        return f"{NAMED}, and it has more than {FEW} values"
    return None


def are_record_numbers(different: float, rows: float, noise: float = 0.0) -> bool:
    """Return whether so many rows with so many different whole numbers may number people or records, by counts with some noise.

    Amounts repeat, and so do numbers of people with several rows, which a unit of privacy is for.
    """
    return different > FEW and different + min(noise, MOST_NOISE * rows) >= ALL_DIFFERENT * rows


def identifying_categories(name: str, categories: Sequence[object], other: object) -> str | None:
    """Return why listed values seem to identify people or records, in a clause without a value; None if they do not.

    ``other`` is the category that stands for undeclared values, which is not looked at. A column whose name in the catalogue is
    that of a code has codes.
    """
    if catalogue().names_code(name) or catalogue().names_diagnosis(name):
        return None
    if len(categories) > MAX_DRAFTED_CATEGORIES:
        return f"it has more than {MAX_DRAFTED_CATEGORIES:,} categories"
    values = [value for value in categories if value != other]
    texts = [f"{value:.0f}" if isinstance(value, float) else str(value) for value in values]
    looks = Counter(map(look_of, texts))
    if (form := next((form for form, _ in _FORMS if looks[form]), None)) is not None:
        return f"its values look like {form}"
    if len(texts) <= FEW:
        return None
    times = Counter(time_class(text.strip()[:LOOKED_AT]) or "" for text in texts)
    if (reason := reason_of_times(times)) is not None:
        return reason
    for look, least_share in _LEAST_SHARES.items():
        if looks[look] >= least_share * len(texts) and (look != NAMES or len(texts) > NAMES_FROM):
            return f"its values look like {look}"
    return None


def look_of(text: str) -> str | None:
    """Return what one text looks like: an identifier of some form, a name of a person or free text; None for others."""
    text = text.strip()[:LOOKED_AT]
    form = next((form for form, pattern in _FORMS if pattern.search(text)), None)
    if form is not None:
        return form
    if _RECORD.fullmatch(text):
        return "record numbers"
    if _ADDRESS.fullmatch(text):
        return "addresses"
    if _is_name(text):
        return NAMES
    return PROSE if len(text.split()) >= 5 else None


def _is_name(text: str) -> bool:
    """Return two to four capitalised words of letters."""
    words = re.split(r"[\s,]+", text)
    letters = (re.sub(r"[-'’.]", "", word) for word in words)
    return 2 <= len(words) <= 4 and all(x.isalpha() and x[0].isupper() for x in letters)


def _words(name: str) -> list[str]:
    """Return the words of a column's name without its numbers: ``PatientID``, ``patient-id`` and ``patient id 2`` alike."""
    return [word for word in words_of(name) if not word.isdecimal()]
