"""A field says its axes, unit, label and text once: tables, frames, JSON, pages, widening and documentation follow."""

import dataclasses
import json
import re

import numpy as np
import pandas as pd
import pytest
from every_result import MADE, made
from helpers.errors import raises

import fastpubpriv as fpp
from fastpubpriv.results.base import Result, Value
from fastpubpriv.results.drawn import Drawn
from fastpubpriv.results.fields import (
    array,
    column,
    declaration_of,
    declared,
    drawn_of,
    value_class,
)
from fastpubpriv.results.json_fields import FORMAT_VERSION
from fastpubpriv.results.result_tables import Table, interval_drawings

RESULTS = [name for name in MADE if isinstance(made(name), Result)]
DRAWN = [name for name in RESULTS if isinstance(made(name), Drawn)]


def with_fields(result, **fields):
    """The result as one of a class that has further fields: name=(type, field, value)."""
    body = {name: field for name, (_, field, _) in fields.items()}
    body["__annotations__"] = {name: kind for name, (kind, _, _) in fields.items()}
    kind = value_class(type("Toy", (type(result),), body))
    own = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return kind(**own, **{name: value for name, (_, _, value) in fields.items()})


@pytest.mark.parametrize("name", RESULTS)
def test_a_number_for_each_line_is_one_line_in_any_result(name):
    lines = len(made(name).to_frame())
    field = array("lines", label="toy_name", unit="toys", sampling=True, doc="How many toys.")
    toy = with_fields(made(name), toys=("np.ndarray", field, np.arange(lines) + 0.125))
    assert sorted(toy.to_frame()["toy_name"]) == toy.toys.tolist()
    assert json.loads(toy.to_json())["toys"] == toy.toys.tolist()
    assert type(toy).from_json(toy.to_json()).toys.tolist() == toy.toys.tolist()
    assert "    toys : (lines,) float64\n        How many toys. Unit: toys.\n" in type(toy).__doc__
    assert np.array_equal(toy.widened(4).toys, 2.0 * toy.toys)
    assert not toy.toys.flags.writeable
    # Counts by two columns have a table without columns of their own in texts.
    if name != "CountResult":
        assert "toy_name" in toy.summary()
        assert "<th>toy_name</th>" in toy._repr_html_()


@pytest.mark.parametrize("name", RESULTS)
def test_a_number_of_the_whole_is_one_line_in_any_result(name):
    field = declared(label="Toys", unit="toys", doc="How many toys.")
    toy = with_fields(made(name), toys=("float", field, 12.5))
    assert re.search(r"^Toys +12\.5 toys$", toy.summary(), re.MULTILINE)
    assert "<dt>Toys</dt><dd>12.5 toys</dd>" in toy._repr_html_()
    assert type(toy).from_json(toy.to_json()).toys == 12.5
    assert "    toys : float\n        How many toys. Unit: toys.\n" in type(toy).__doc__


@value_class
class Grid(Value):
    """Numbers over two axes.

    Attributes
    ----------
    cells : (rows, columns) float64
        Numbers.

    Examples
    --------
    >>> None
    """

    rows: tuple[str, ...]
    cells: np.ndarray = array("rows", "columns", label="cell", ends="ends", error="half")
    tops: np.ndarray = array("columns", label="top", doc="Numbers of columns.")
    half: float = 0.5

    _line_axes = ("rows", "columns")

    def _axis(self, axis):
        return ("row", self.rows) if axis == "rows" else ("column", ["a", "b"])

    def ends(self, level):
        return self.cells - self.half, self.cells + self.half

    @property
    @column("twice", after_reasons=True)
    def twice(self):
        return 2.0 * self.cells

    @column("level")
    def level_of_each(self, level):
        return None if level == 0.5 else np.full(4, level)


GRID = Grid(rows=("x", "y"), cells=np.array([[1.0, 2.0], [3.0, 4.0]]), tops=np.array([7.0, 8.0]))


def test_lines_over_two_axes():
    frame = GRID.to_frame()
    wanted = pd.DataFrame(
        {
            "column": ["a", "b", "a", "b"],
            "cell": [1.0, 2.0, 3.0, 4.0],
            "lower": [0.5, 1.5, 2.5, 3.5],
            "upper": [1.5, 2.5, 3.5, 4.5],
            "top": [7.0, 8.0, 7.0, 8.0],
            "level": 0.95,
            "twice": [2.0, 4.0, 6.0, 8.0],
        },
        index=pd.Index(["x", "x", "y", "y"], name="row"),
    )
    pd.testing.assert_frame_equal(frame, wanted)
    assert "level" not in [each.name for each in GRID._table(0.5).every]


def test_a_text_is_added_to_those_of_the_docstring():
    before, _, after = Grid.__doc__.partition("    tops : (columns,) float64\n")
    assert before.endswith("        Numbers.\n")
    assert after.startswith("        Numbers of columns.\n\n    Examples\n")


def test_methods_of_a_class_with_slots_find_those_of_its_base():
    @value_class
    class Above(Grid):
        def ends(self, level):
            lower, upper = super().ends(level)
            return lower - 1.0, upper

    above = Above(rows=GRID.rows, cells=GRID.cells, tops=GRID.tops)
    assert above.to_frame()["lower"].tolist() == [-0.5, 0.5, 1.5, 2.5]


HEAD = re.compile(r"^    (\w+(?:, \w+)*) : \(([\w, ]+)\) (?:float|int)64", re.MULTILINE)


@pytest.mark.parametrize("name", MADE)
def test_the_shapes_of_the_docstring_are_those_that_are_declared(name):
    kind = type(made(name))
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for names, axes in HEAD.findall(kind.__doc__):
        for field in names.split(", "):
            stated = [axis for axis in axes.split(",") if axis.strip()]
            if field in fields and declaration_of(fields[field]).dtype is not None:
                assert len(stated) == len(declaration_of(fields[field]).axes), field


# ---- Plots -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DRAWN)
def test_a_number_that_is_drawn_is_one_line_in_any_result(name):
    """A plot shows the new numbers on the lines of the others, and its legend has their name."""
    pytest.importorskip("matplotlib")
    result = made(name)
    shown = next(iter(drawn_of(type(result))))
    numbers = np.asarray(getattr(result, shown), dtype=np.float64)
    field = array("lines", label="toy", drawn="toys")
    toy = with_fields(result, toys=("np.ndarray", field, numbers.ravel() + 0.125))
    figure = toy.plot()
    assert "toys" in [text.get_text() for text in figure.legends[0].get_texts()]
    drawn = [line.get_xdata() for axes in figure.axes for line in axes.lines]
    points = np.concatenate([each for each in drawn if len(each)])
    places = toy._drawn_places()
    assert np.all(np.isin(toy.toys[places], points))
    assert np.all(np.isin(numbers.ravel()[places], points))


@pytest.mark.parametrize("name", ["MeanResult", "GroupMeans", "QuantileResult", "GroupQuantiles"])
def test_the_axis_of_a_plot_has_the_label_of_its_field(name):
    pytest.importorskip("matplotlib")
    (declaration,) = drawn_of(type(made(name))).values()
    text = made(name).plot(level=0.9)._supxlabel.get_text()
    by = f" by {made(name).by[0]}" if hasattr(made(name), "by") else ""
    assert text == f"{declaration.label}{by}, with 90% intervals"


@pytest.mark.parametrize("name", ["CountResult", "PersonCounts"])
def test_the_axis_of_a_plot_has_the_unit_of_its_field(name):
    pytest.importorskip("matplotlib")
    (declaration,) = drawn_of(type(made(name))).values()
    text = made(name).plot()._supxlabel.get_text().replace("\n", " ")
    assert text == (
        f"{declaration.label} ({declaration.unit}) by {', '.join(made(name).by)}, "
        f"with 95% intervals of the noise"
    )


# ---- The version of the form of JSON texts ---------------------------------------------------------------------------
@pytest.mark.parametrize("name", MADE)
def test_json_has_a_version_and_older_texts_have_none(name):
    result = made(name)
    data = json.loads(result.to_json())
    assert next(iter(data)) == "format_version"
    assert data.pop("format_version") == FORMAT_VERSION
    assert type(result).from_json(json.dumps(data)).to_json() == result.to_json()
    assert "format_version" not in json.dumps(data)  # values within it have none of their own


@pytest.mark.parametrize("name", MADE)
def test_a_later_version_is_refused_in_words(name):
    result = made(name)
    later = result.to_dict() | {"format_version": FORMAT_VERSION + 1, "field_of_tomorrow": 1}
    words = (
        f"version {FORMAT_VERSION + 1}, and this fastpubpriv reads versions up to {FORMAT_VERSION}"
    )
    raises(fpp.InputError, words, type(result).from_json, json.dumps(later))


@pytest.mark.parametrize("version", [0, -1, 1.0, "1", True, None, [1], 10**400])
def test_a_version_that_is_none_is_refused(version):
    result = made("MeanResult")
    text = json.dumps(result.to_dict() | {"format_version": version})
    raises(fpp.InputError, "version", type(result).from_json, text)


# ---- Drawings in pages -----------------------------------------------------------------------------------------------
def places(cell):
    """Lower end, estimate and upper end in a drawing, in pixels."""
    least, most = map(float, re.search(r"x1='([\d.]+)' x2='([\d.]+)' y1='6'", cell).groups())
    return least, float(re.search(r"cx='([\d.]+)'", cell)[1]), most


def scale(cell):
    """The numbers below a drawing."""
    return [float(number) for number in re.findall(r">(-?[\d.e+-]+)</text>", cell)]


def test_each_unit_has_an_axis_whose_ends_are_printed_once():
    columns = [
        ("value", [10.0, 5e6, 30.0]),
        ("lower", [5.0, 4e6, 20.0]),
        ("upper", [15.0, 8e6, 40.0]),
    ]
    table = Table("group", ["a", "a", "b"], columns, units=["years", "dollars", "years"])
    first, second, third = interval_drawings(table)
    assert places(first) == pytest.approx(
        (2 + 116 * 5 / 40, 2 + 116 * 10 / 40, 2 + 116 * 15 / 40), abs=0.05
    )
    assert places(second) == pytest.approx((2 + 58, 2 + 116 * 5 / 8, 2 + 116), abs=0.05)
    assert places(third)[2] == 118.0
    assert (scale(first), scale(second), scale(third)) == ([], [0.0, 8e6], [0.0, 40.0])


def test_groups_of_two_columns_have_an_axis_for_each():
    result = made("GroupMeans")
    drawn = interval_drawings(result._table(0.95))
    columns = result.to_frame()["column"].tolist()
    # Without an axis of its own the first column, about 5, would be at one place beside 20 times wider numbers.
    for name in set(columns):
        cells = [
            cell for cell, own in zip(drawn, columns, strict=True) if own == name and "svg" in cell
        ]
        assert [bool(scale(cell)) for cell in cells] == [False] * (len(cells) - 1) + [True]
        ends = [place for cell in cells for place in places(cell)]
        assert {min(ends), max(ends)} & {2.0, 118.0}


def test_bins_of_one_and_of_two_columns_in_one_page():
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    both = fpp.ProductBins(grids=[fpp.BinGrid(width=1.0), fpp.BinGrid(width=1.0)], columns=[0, 1])
    bins = [fpp.BinGrid(width=1.0), None, both]
    result = fpp.stable_histogram(rows, bins=bins, budget=fpp.ApproxDP(8, 1e-6))
    assert "<table>" in result._repr_html_()
