"""`fastpubpriv train` and `predict`: a regression of a label on the other columns, and its predictions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from fastpubpriv.cli import options
from fastpubpriv.cli.estimators import Named, estimator
from fastpubpriv.cli.spoken import TEXTS_ARE_READ, in_words_of_options, spoken
from fastpubpriv.cli.streams import refuse
from fastpubpriv.errors import InputError

CLASSES = ("logistic", "softmax", "smooth_hinge")  # losses of classes
WEIGHTS = ("weights_pub", "weights_priv")


def _reading(settings: Named) -> Named:
    """Return how the files are read: with columns of text, and without those of weights."""
    from fastpubpriv.cli.opened_files import derived, joined_lines
    from fastpubpriv.sources.labeled import class_texts, column_texts
    from fastpubpriv.sources.open import names_of_table, texts_of_column
    from fastpubpriv.training import huber_loss

    loss = settings["loss"]
    threshold = settings["huber_threshold"]
    refuse(threshold is not None and loss != "huber", "--huber-threshold belongs to --loss huber")
    if threshold is not None:
        settings["loss"] = huber_loss(threshold)
    label = settings["label"]
    names = None
    public = settings["public_path"]
    if settings["join_quoted_lines"]:
        public = joined_lines(public, None)
    public = derived(settings, public)
    if isinstance(settings["class_weight"], tuple):  # of pairs, or a word
        settings["class_weight"] = dict(settings["class_weight"])
    pairs = itertools.chain.from_iterable(settings["categories"])
    categories: Any = dict(pairs) or None
    settings["categories"] = categories
    texts = column_texts(categories, public)
    if loss in CLASSES:
        names = class_texts(settings["classes"], public, None, label)
    elif label is not None:
        are_texts = texts_of_column(public, label) is not None
        advice = "pass --loss logistic for two of them, --loss softmax for more"
        refuse(are_texts, f"--label: labels of text, as in {label!r}, are classes: {advice}")
    both = texts if names is None or label is None else {**texts, label: names}
    if texts:
        settings["categories"] = {**categories, **texts}
    settings |= {} if names is None else {"classes": names}
    private_alone = () if label in (None, *(names_of_table(public) or (label,))) else (label,)
    if label is not None and settings["columns"] is not None:
        # Columns named by --categories are features as well.
        listed = dict.fromkeys([*settings["columns"], *(categories or ()), label])
        settings["columns"] = [name for name in listed if name not in private_alone]
    weights = [settings[name] for name in WEIGHTS if isinstance(settings[name], str)]
    return {
        "texts": both,
        "without": weights,
        "hint": TEXTS_ARE_READ,
        "private_alone": private_alone,
    }


@estimator(
    "train",
    "Regression on {n:,} private rows",
    reading=_reading,
    loss="loss huber_threshold",
    y_priv="",
    y_pub="",
    max_memory="",
)
def train(inputs: Any, settings: Named, arguments: Named) -> None:
    """A linear model of a label on private rows, starting from public ones: regression, classes, counts.

    A private row with a missing label is ignored; one with a missing cell too, unless public cells of that column are
    missing as well. If the public rows alone are predicted to be as accurate, nothing is spent.

    loss : "squared", "logistic", "huber", "softmax", "smooth_hinge" or "poisson", default squared
        squared: the label is a number; huber: the same, linear in large residuals; logistic, smooth_hinge: one of two classes;
        softmax: one of several; poisson: a count.
    huber_threshold : float, optional
        huber: residual from which on the loss is linear, in standard deviations of public labels. Default: 1.345.
    label : NAME
        Column that holds the label; the public file may lack it, or have empty cells. Default, for .npy files only: the last one.
    weights_pub : FILE.npy|NAME
        Weights of the public rows: a column of the public file, or a file with a number for each row.
    weights_priv : NAME
        Weights of the private rows: a column of the private file, in the unit of --weights-pub; with --weight-cap.
    x_bounds : NAME=LOW:HIGH, repeated :: Range of a column, known without the data; may be given for several columns.
    categories : A[=x:y:z],..., repeated
        Columns, of texts or numbers, each of whose levels is a term of its own (carrier=UA): those of the public rows, or those
        listed with colons between them.
    reference : NAME=TEXT, repeated
        Level of a column of --categories from which the coefficients of its other levels are differences. Default: they are
        differences from the average of the public rows.
    classes : a,b,... :: ...
    class_weight : A=W,...|WORD :: ...
    method : "auto", "newton", "throw_away", "semi_dp", "dp_sgd", "pda_mirror_descent", "output_perturbation" or "exponential"
        auto: newton, unless noise would dominate it. newton: noisy Newton steps that start from the public fit (squared,
        logistic, huber). throw_away: public rows alone, spends nothing. semi_dp, dp_sgd, pda_mirror_descent: noisy gradient
        descent, any loss. output_perturbation: noise on the minimum (logistic, huber, smooth_hinge; --rho or --epsilon alone).
        exponential: a choice among models (few columns).
    tails : "any" or "light"
        any: distant rows have the weight of least squares, or of maximum likelihood. light: residuals and columns are known to have
        no long tails (squared, logistic).

    $ fastpubpriv train --private visits.parquet --public volunteers.csv --label cost --epsilon 1 --delta 1e-7 --json model.json
    $ fastpubpriv train --loss logistic --private p.csv --public q.csv --label ill --columns age,dose --rho 0.1
    $ fastpubpriv train --private f.parquet --public g.parquet --label delay --categories carrier,month=1:2:3 \\
        --reference carrier=UA --rho 0.1
    $ fastpubpriv train --loss softmax --private p.csv --public q.csv --label species --classes cat,dog,fox --rho 0.5
    """
    from fastpubpriv.cli.opened_files import is_table, joined_lines
    from fastpubpriv.sources.open import public_rows
    from fastpubpriv.validation import did_you_mean

    label = settings["label"]
    names = inputs.names
    is_named = is_table(settings["private_path"])
    label_alone = (
        "--label names a column of a table, and is left out for .npy files: their last column is it"
    )
    refuse((label is None) == is_named, label_alone)
    arguments |= {"loss": settings["loss"], "label": -1 if label is None else label}
    if is_named:
        wrong = did_you_mean(label, names)
        refuse(
            label not in names,
            f"--label: {label[:80]!r} is not a column of the private file that can be read{wrong}",
        )
        for name in settings["categories"] or ():
            wrong = f"is not a column of both files{did_you_mean(name, names)}"
            refuse(name not in names, f"--categories: {name[:80]!r} {wrong}")
    if inputs.columns is not None:
        arguments["columns"] = [name for name in inputs.columns if name != label]
    unnamed = "--weights-priv names a column, and .npy files have none: save a table"
    refuse(settings["weights_priv"] is not None and not is_named, unnamed)
    if settings["join_quoted_lines"]:  # the opened rows have no column of weights
        if isinstance(name := settings["weights_pub"], str):
            public = joined_lines(settings["public_path"], [name])
            weights = public_rows(public, columns=[name], argument="--weights-pub")
            arguments["weights_pub"] = weights[:, 0]
        if (name := settings["weights_priv"]) is not None:
            arguments["weights_priv"] = joined_lines(settings["private_path"], [name])


train.callback = in_words_of_options(spoken)(train.run)


@options.command()
@in_words_of_options(spoken)
def predict(model_path: Path, rows_path: Path, out_path: Path, level: float | None) -> None:
    """Labels of rows by a model that `train` wrote, one line for each row.

    For two classes, the likelier one and the probability of the second, which the header names; for several classes, the likeliest
    and its probability. A row with a missing cell has none. The predictions need the same protection as their rows.

    model_path : file :: Output of `train --json`.
    rows_path : file :: Rows with the model's columns.
    out_path : file or - :: Write predictions as .csv; - for stdout.
    level : float, optional
        For a number: also the ends of an interval that contains this share of the labels of new rows, such as 0.9.

    $ fastpubpriv predict --model model.json --rows new.parquet --out predictions.csv
    """
    from fastpubpriv.cli import outputs, streams
    from fastpubpriv.results.json_fields import read_json
    from fastpubpriv.results.models import DescentResult, ParsedRows, TrainingResult, as_columns
    from fastpubpriv.sources import private_rows

    outputs.check_place("--out", out_path, (model_path, rows_path))
    wrong = f"--model: {str(model_path)!r} is not a model that `train --json` wrote"
    try:
        stored = read_json(model_path, "model")
        stored.pop("warnings", None)
        kind: Any = DescentResult if stored.get("kind") == "DescentResult" else TrainingResult
        model = kind._from_plain(stored)
    except InputError as error:
        raise InputError(f"{wrong}: {error}") from None
    columns = None if rows_path.suffix == ".npy" else model.columns
    rows = private_rows(rows_path, columns=as_columns(columns, model.design))
    if rows.dim != model.dim:
        raise InputError(
            f"--rows has {rows.dim} columns and the model has {model.dim}: pass the columns without the label"
        )
    no_interval = level is not None and (kind is DescentResult or model.loss == "logistic")
    refuse(
        no_interval,
        "--level: only a model of a number, without noisy gradients, has intervals for labels",
    )
    lines = [_head(model, level)]
    for chunk in rows.chunks():
        lines += _lines(model, ParsedRows(chunk.astype("float64")), level)
    if not outputs.write_text("\n".join(lines) + "\n", out_path):
        streams.wait_for_reader()


def _lines(model: Any, cells: Any, level: float | None) -> list[str]:
    """Return a line for each row."""
    columns = [[_field(each, bool(model.design.get("classes"))) for each in model.predict(cells)]]
    if model.loss in ("logistic", "softmax"):
        both = model.predict_proba(cells)
        # For two classes the probability of the second one, for more that of the likeliest.
        columns.append(
            [f"{each:.6g}" for each in (both[:, 1] if both.shape[1] == 2 else both.max(axis=1))]
        )
    elif level is not None:
        columns += [
            [f"{each:.10g}" for each in end] for end in model.prediction_interval(cells, level)
        ]
    return [",".join(line) for line in zip(*columns, strict=True)]


def _head(model: Any, level: float | None) -> str:
    """Return the names of the columns; that of a probability names the second of two classes."""
    if model.loss not in ("logistic", "softmax"):
        return "label" if level is None else "label,lower,upper"
    texts = model.design.get("classes")
    if len(model.classes) != 2:
        return "label,probability"
    return "label," + _field(
        f"probability of {texts[1] if texts else f'{model.classes[1]:g}'}", True
    )


def _field(label: Any, texts: bool) -> str:
    """Return a label as a field of a CSV file."""
    if not texts:
        return f"{label:.10g}"
    quoted = "" if label is None else str(label).replace('"', '""')
    return f'"{quoted}"' if any(sign in quoted for sign in ',"\r\n') else quoted
