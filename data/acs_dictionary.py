"""The columns of the source document as the PUMS data dictionary describes them, and the states' codes.

Written down from the dictionary of 2019 (US Census Bureau), never read off a file. A blank is null: it
stands for "not applicable", e.g. a household column of a person in group quarters.
"""

from collections.abc import Sequence

from tabsynth.schema import Categorical, Numeric, Ordinal

SOURCE = "ACS PUMS data dictionary 2019, US Census Bureau"

# FIPS codes of the states, the District of Columbia and Puerto Rico, by their two letters.
_STATES = """
AL:01 AK:02 AZ:04 AR:05 CA:06 CO:08 CT:09 DE:10 DC:11 FL:12 GA:13 HI:15 ID:16
IL:17 IN:18 IA:19 KS:20 KY:21 LA:22 ME:23 MD:24 MA:25 MI:26 MN:27 MS:28 MO:29
MT:30 NE:31 NV:32 NH:33 NJ:34 NM:35 NY:36 NC:37 ND:38 OH:39 OK:40 OR:41 PA:42
RI:44 SC:45 SD:46 TN:47 TX:48 UT:49 VT:50 VA:51 WA:53 WV:54 WI:55 WY:56 PR:72
"""
FIPS = dict(item.split(":") for item in _STATES.split())


def _codes(
    name: str,
    description: str,
    labels: Sequence[str],
    *,
    first: int = 1,
    nulls: bool = False,
    kind: type[Categorical] = Categorical,
) -> Categorical:
    codes = tuple(range(first, first + len(labels)))
    return kind(
        name=name,
        dtype="Int64" if nulls else "int64",
        nulls=nulls,
        categories=codes,
        source=SOURCE,
        description=description,
        labels=dict(zip(map(str, codes), labels, strict=True)),
    )


NP = Ordinal(
    name="NP",
    dtype="int64",
    categories=tuple(range(1, 21)),
    source=SOURCE,
    description="Persons in the household (1 in group quarters)",
)
HHT = _codes(
    "HHT",
    "Household or family type",
    (
        "Married couple",
        "Other family, male householder",
        "Other family, female householder",
        "Male householder living alone",
        "Male householder not living alone",
        "Female householder living alone",
        "Female householder not living alone",
    ),
    nulls=True,
)
# The dictionary's bounds are -59,999 and 9,999,999; cells of 10,000 dollars end at 499,999, which
# also stands for every greater income.
HINCP = Numeric(
    name="HINCP",
    dtype="Int64",
    nulls=True,
    low=-60_000,
    high=499_999,
    bins=56,
    resolution=1,
    clip=True,
    source=SOURCE,
    description="Household income of the past 12 months in dollars, top-coded at 499,999",
)
HUPAC = _codes(
    "HUPAC",
    "Presence and age of children in the household",
    ("Under 6 only", "6 to 17 only", "Under 6 and 6 to 17", "None"),
    nulls=True,
)
WIF = _codes(
    "WIF",
    "Workers in the family in the past 12 months",
    ("None", "1", "2", "3 or more"),
    first=0,
    nulls=True,
    kind=Ordinal,
)
AGEP = Numeric(
    name="AGEP",
    dtype="int64",
    low=0,
    high=99,
    bins=100,
    resolution=1,
    source=SOURCE,
    description="Age in years (top-coded)",
)
SEX = _codes("SEX", "Sex", ("Male", "Female"))
ESR = _codes(
    "ESR",
    "Employment status (null under 16 years)",
    (
        "Civilian at work",
        "Civilian with a job, not at work",
        "Unemployed",
        "Armed forces, at work",
        "Armed forces, not at work",
        "Not in labor force",
    ),
    nulls=True,
)
RAC1P = _codes(
    "RAC1P",
    "Race, recoded",
    (
        "White",
        "Black or African American",
        "American Indian",
        "Alaska Native",
        "American Indian or Alaska Native, tribe or kind not specified",
        "Asian",
        "Native Hawaiian or Pacific Islander",
        "Some other race",
        "Two or more races",
    ),
)

DICTIONARY = {c.name: c for c in (NP, HHT, HINCP, HUPAC, WIF, AGEP, SEX, ESR, RAC1P)}
