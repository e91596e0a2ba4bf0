"""`fastpubpriv train` and `predict`: a regression of a label on the other columns, and its predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.means import common, prepare, run

TRAIN_EPILOG = """\b
Examples:
  fastpubpriv train --private visits.parquet --public volunteers.csv --label cost --epsilon 1 --delta 1e-7 --json model.json
  fastpubpriv train --loss logistic --private p.csv --public q.csv --label ill --columns age,dose --rho 0.1
"""
PREDICT_EPILOG = """\b
Example:
  fastpubpriv predict --model model.json --rows new.parquet --out predictions.csv
"""


@click.command(epilog=TRAIN_EPILOG, short_help="Linear or logistic regression of a label on the other columns.")
@options.private_option("The labelled rows to protect")
@options.public_option(required=True)
@click.option(
    "--label", metavar="NAME", help="Column that holds the label. Default, for .npy files only: the last one."
)
@click.option(
    "--loss",
    type=click.Choice(["squared", "logistic"]),
    default="squared",
    show_default=True,
    help="squared: the label is a number; logistic: it is one of two classes.",
)
@options.budget_options()
@options.columns_option
@click.option(
    "--categories",
    metavar="A,B=1:2:3,...",
    help="Columns whose numbers are codes; those listed, or those of the public rows, each get a term.",
)
@click.option("--classes", metavar="A,B", help="logistic: the two labels. Default: those of the public rows.")
@click.option(
    "--class-weight",
    metavar="A=W,B=W|public",
    help="logistic: numbers that the loss of each class is multiplied by; public: one over the frequency in the public rows.",
)
@click.option(
    "--x-bounds",
    metavar="NAME=LOW:HIGH",
    multiple=True,
    help="What a column can hold, known without the data; may be given for several columns.",
)
@click.option("--y-bounds", metavar="LOW,HIGH", help="squared: what labels can be, known without the data.")
@click.option(
    "--y-scale", type=float, help="squared: a difference between labels that matters, where public ones are all equal."
)
@options.method_option("fastpubpriv.training.methods", "See the README.")
@options.ledger_options
@options.run_options
@options.output_options
def train(**settings: Any) -> None:
    """Linear or logistic regression on private rows, starting from public ones.

    A private row with a missing label counts for nothing; one with a missing cell too, unless public cells of that column are
    missing as well. Where the public rows alone are predicted to do as well, nothing is spent.
    """
    label = settings["label"]
    if label is not None and settings["columns"] is not None:
        settings["columns"] = f"{settings['columns']},{label}"
    opened = prepare(settings)
    public, names = opened.public, opened.private.columns
    if (label is None) != (names is None):
        raise click.UsageError(
            "--label names a column of a table, and is left out for .npy files: their last column is it"
        )
    if names is not None:
        if label not in names:
            raise click.UsageError(f"--label: {label[:80]!r} is not a numeric column of both files")
        order = [place for place, name in enumerate(names) if name != label]
        public = public[:, [*order, names.index(label)]]
    stated = _stated(settings)

    def call(ledger: Any) -> Any:
        return fpp.train(
            opened.private,
            loss=settings["loss"],
            x_pub=public,
            label=-1 if label is None else label,
            ledger=ledger,
            **stated,
            **options.given(settings, "method"),
            **common(settings),
        )

    run(call, f"Regression on {opened.private.n:,} private rows", settings)


def _stated(settings: dict[str, Any]) -> dict[str, Any]:
    """What the options say of columns and labels, as arguments of `train`."""
    found: dict[str, Any] = options.given(settings, "y_scale")
    coded: dict[str, Any] = {}
    for each in (settings["categories"] or "").split(",") if settings["categories"] is not None else ():
        name, equals, levels = each.partition("=")
        coded[name.strip()] = _numbers(levels, "--categories", each) if equals else "public"
    if coded:
        found["categories"] = coded
    if settings["classes"] is not None:
        found["classes"] = options.two_numbers(settings["classes"], "--classes")
    if settings["y_bounds"] is not None:
        found["y_bounds"] = options.two_numbers(settings["y_bounds"], "--y-bounds")
    if settings["class_weight"] == "public":
        found["class_weight"] = "public"
    elif settings["class_weight"] is not None:
        pairs = [
            _numbers(each.replace("=", ":"), "--class-weight", each, 2) for each in settings["class_weight"].split(",")
        ]
        found["class_weight"] = {label: weight for label, weight in pairs}
    if settings["x_bounds"]:
        found["x_bounds"] = {}
        for each in settings["x_bounds"]:
            name, _, ends = each.rpartition("=")
            found["x_bounds"][name.strip()] = tuple(_numbers(ends, "--x-bounds", each, 2))
    return found


def _numbers(text: str, option: str, quoted: str, count: int | None = None) -> list[float]:
    """Numbers between colons."""
    found = [options.exact_number(part.strip()) for part in text.split(":")]
    numbers = [options.real(each, option) for each in found if each is not None]
    if len(numbers) < len(found) or count not in (None, len(found)):
        shapes = {"--categories": "month or month=1:2:3", "--class-weight": "0=1,1=5", "--x-bounds": "age=0:120"}
        raise click.UsageError(f"{option} must look like {shapes[option]}; got {quoted[:80]!r}")
    return numbers


@click.command(epilog=PREDICT_EPILOG, short_help="Labels of rows by a model that `train` wrote.")
@click.option("--model", "model_path", required=True, type=options.FileName(), help="What `train --json` wrote.")
@click.option("--rows", "rows_path", required=True, type=options.FileName(), help="Rows with the model's columns.")
@click.option(
    "--out",
    "out_path",
    required=True,
    type=options.FileName(dash=True),
    help="Write predictions as .csv; - for stdout.",
)
def predict(model_path: Path, rows_path: Path, out_path: Path) -> None:
    """Labels of rows by a model that `train` wrote, one line for each row.

    Of a logistic model, the likelier class and the probability of the second one. A row with a missing cell has none. The
    predictions are as private as the rows that they are of.
    """
    from fastpubpriv.cli import outputs, streams
    from fastpubpriv.errors import InputError
    from fastpubpriv.results.training import TrainingResult
    from fastpubpriv.sources import private_rows

    if not outputs.is_stdout(out_path):
        outputs.refuse_unwritable("--out", out_path)
        if any(outputs.same_file(out_path, other) for other in (model_path, rows_path)):
            raise click.UsageError("--out is also one of the files that are read")
    try:
        kept = json.loads(model_path.read_text(encoding="utf-8"))
        kept.pop("warnings", None)
    except (OSError, ValueError, AttributeError, TypeError):
        raise InputError(f"--model: {str(model_path)!r} is not a model that `train --json` wrote") from None
    model = TrainingResult.from_json(json.dumps(kept))
    rows = private_rows(rows_path, columns=None if rows_path.suffix == ".npy" else model.columns)
    if rows.dim != model.dim:
        raise InputError(
            f"--rows has {rows.dim} columns and the model has {model.dim}: pass the columns without the label"
        )
    classes = len(model.classes) > 0
    lines = ["label,probability" if classes else "label"]
    for chunk in rows.chunks():
        labels = model.predict(chunk)
        if classes:
            second = model.predict_proba(chunk)[:, 1]
            lines += [f"{one:.10g},{other:.6g}" for one, other in zip(labels, second, strict=True)]
        else:
            lines += [f"{one:.10g}" for one in labels]
    text = "\n".join(lines)
    if outputs.is_stdout(out_path):
        streams.emit(text)
        streams.wait_for_reader()
    else:
        outputs.replace_file(out_path, lambda place: place.write_text(text + "\n", encoding="utf-8"))
