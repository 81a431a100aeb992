"""The tables of the study: handwritten digits, and printed ones that stand in for them in tuning."""

from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from tabsynth import Schema
from tabsynth.schema import Column

SIDE, LEVELS, DIGITS = 8, 17, 10
PIXELS = [f"p{i // SIDE}{i % SIDE}" for i in range(SIDE * SIDE)]
LABEL = "digit"
SOURCE = "UCI, Optical Recognition of Handwritten Digits: counts of dark dots in 4 x 4 cells"
ENCODINGS = {"ordinal": dict.fromkeys(PIXELS, "ordinal"), "one-hot": "one-hot"}
TRAIN, TEST, PUBLIC = 1258, 539, 25  # rows: 70%, 30%, and 2% of the 70%, as dp-GAN takes
FONTS = (
    *("DejaVuSans", "DejaVuSans-Oblique", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif"),
    *("DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralItalic", "STIXGeneralBol"),
    *("cmr10", "cmss10", "cmti10", "cmtt10", "cmb10"),
)


def schema() -> Schema:
    """64 ordinal columns of levels 0…16, and the digit."""
    levels = tuple(range(LEVELS))
    pixels = [
        Column(name=name, kind="ordinal", dtype="int64", categories=levels, source=SOURCE)
        for name in PIXELS
    ]
    digits = tuple(str(d) for d in range(DIGITS))
    label = Column(name=LABEL, kind="categorical", dtype="str", categories=digits, source=SOURCE)
    return Schema([*pixels, label])


def table(images: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """Images, shape (n, 64), and their digits as a table of the schema."""
    frame = pd.DataFrame(images.astype(np.int64), columns=PIXELS)
    frame[LABEL] = pd.Series(labels.astype(int).astype(str), dtype="str")
    return frame


def handwritten() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Private, public and test rows: disjoint, each with the digits' shares."""
    images, labels = load_digits(return_X_y=True)
    everything = table(images, labels)
    fixed = {"random_state": 0, "shuffle": True}
    train, test = train_test_split(everything, test_size=TEST, stratify=labels, **fixed)
    private, public = train_test_split(train, test_size=PUBLIC, stratify=train[LABEL], **fixed)
    return tuple(part.reset_index(drop=True) for part in (private, public, test))


def printed() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The same of digits in the fonts that matplotlib ships: no handwritten digit is in it."""
    rng = np.random.default_rng(0)
    labels = np.arange(TRAIN + TEST) % DIGITS
    images = np.stack([_print(int(digit), rng) for digit in labels])
    everything = table(images, labels)
    order = rng.permutation(len(everything))
    cuts = np.split(order, [TRAIN - PUBLIC, TRAIN])
    return tuple(everything.iloc[cut].reset_index(drop=True) for cut in cuts)


def _print(digit: int, rng: np.random.Generator) -> np.ndarray:
    """A digit in some font, turned, slanted and stretched, as 64 counts of dark dots in 4 × 4 cells."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    font = ImageFont.truetype(folder / f"{rng.choice(FONTS)}.ttf", 96)
    canvas = Image.new("L", (192, 192))
    ImageDraw.Draw(canvas).text((96, 96), str(digit), fill=255, font=font, anchor="mm")
    slant = rng.uniform(-0.25, 0.25)
    canvas = canvas.rotate(rng.uniform(-12, 12), Image.Resampling.BILINEAR)
    canvas = canvas.transform(canvas.size, Image.Transform.AFFINE, (1, slant, -96 * slant, 0, 1, 0))
    ink = canvas.crop(canvas.getbbox())
    side = 4 * SIDE
    width = min(side, max(6, round(side * ink.width / ink.height * rng.uniform(0.9, 1.4))))
    page = Image.new("L", (side, side))
    page.paste(ink.resize((width, side)), ((side - width) // 2, 0))
    dark = np.asarray(page) > 100
    return dark.reshape(SIDE, 4, SIDE, 4).sum(axis=(1, 3)).ravel()


def accuracy(train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Share of test digits that a logistic regression fitted on ``train`` names."""
    if train[LABEL].nunique() < 2:
        return float((test[LABEL] == train[LABEL].iloc[0]).mean())
    classifier = LogisticRegression(max_iter=300)
    classifier.fit(train[PIXELS] / (LEVELS - 1), train[LABEL])
    return float(classifier.score(test[PIXELS] / (LEVELS - 1), test[LABEL]))


@lru_cache
def _namer() -> LogisticRegression:
    """A logistic regression that names digits, fitted on the real private rows."""
    private = handwritten()[0]
    return LogisticRegression(max_iter=300).fit(_scaled(private), private[LABEL])


def _scaled(rows: pd.DataFrame | np.ndarray) -> np.ndarray:
    levels = rows[PIXELS].to_numpy() if isinstance(rows, pd.DataFrame) else rows
    return levels / (LEVELS - 1)


def inception_score(rows: pd.DataFrame | np.ndarray) -> float:
    """exp of the mean of KL(p(digit | image) ‖ p(digit)), in [1, 10]; higher is better.

    Salimans et al. 2016, with a logistic regression fitted on real rows where they take the Inception
    network. 10: each image is surely one digit, and all digits are as frequent; 1: all images look
    alike to the classifier. It does not tell a digit from an image that is only taken for one.
    """
    chances = np.clip(_namer().predict_proba(_scaled(rows)), 1e-12, 1)
    return float(np.exp((chances * np.log(chances / chances.mean(0))).sum(1).mean()))


def random_rows(rows: int, seed: int) -> pd.DataFrame:
    """Uniform noise: every level and every digit is as likely as any other."""
    rng = np.random.default_rng(seed)
    return table(rng.integers(LEVELS, size=(rows, SIDE**2)), rng.integers(DIGITS, size=rows))


def shuffled(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Each column in an order of its own: right columns, no relation between them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({c: frame[c].to_numpy()[rng.permutation(len(frame))] for c in frame})
