"""The local model's figure: measured errors meet the closed forms, and PrivUnit is the best of its group."""

import math

from helpers.tables import read

from benchmarks.papers.registry import EXPERIMENTS


def test_the_figure(tmp_path):
    report = EXPERIMENTS["b-local"].run(tmp_path, runs=5, progress=False)
    rows = read(report.csv)
    reports = [row for row in rows if row["part"] == "report"]
    means = [row for row in rows if row["part"] == "mean"]
    assert len(reports) == 45
    assert len(means) == 36
    for row in reports:
        gap = abs(float(row["monte_carlo"]) - float(row["closed_form"]))
        assert gap < 6 * float(row["standard_error"]) + 1e-3 * float(row["closed_form"])
    bits = [row for row in rows if row["part"] == "bits"]
    assert len(bits) == 14
    for row in bits:
        gap = abs(float(row["monte_carlo"]) - float(row["closed_form"]))
        assert gap < 6 * float(row["standard_error"]) + 1e-3 * float(row["closed_form"])
    for epsilon in {row["epsilon"] for row in bits}:
        errors = [float(row["closed_form"]) for row in bits if row["epsilon"] == epsilon][:6]
        assert errors == sorted(errors, reverse=True)  # more bits are better, up to a whole seed
    seen = 0
    for group in {(row["dim"], row["epsilon"]) for row in reports}:
        errors = {row["method"]: float(row["closed_form"]) for row in reports if (row["dim"], row["epsilon"]) == group}
        assert min(errors, key=errors.get) == "PrivUnit"
        # Measured too: better wherever the closed forms differ by more than the measurement can err, and never seen to be worse.
        measured = {row["method"]: row for row in reports if (row["dim"], row["epsilon"]) == group}
        best = measured.pop("PrivUnit")
        for row in measured.values():
            doubt = 6 * math.hypot(float(best["standard_error"]), float(row["standard_error"]))
            assert float(best["monte_carlo"]) < float(row["monte_carlo"]) + doubt
            if float(row["closed_form"]) - float(best["closed_form"]) > doubt:
                assert float(best["monte_carlo"]) < float(row["monte_carlo"])
                seen += 1
    assert seen >= 16  # of 30 comparisons; PrivUnitG is within parts in a thousand for many columns
    for share in {row["public_share"] for row in means}:
        errors = {row["method"]: float(row["closed_form"]) for row in means if row["public_share"] == share}
        assert errors["semi-local"] <= min(errors["one weight"], errors["throw-away"]) * (1 + 1e-9)
    # Both branches of the minimax rate are there: full local is better than throw-away for few public rows, and worse for many.
    sides = {row["method"]: [float(r["closed_form"]) for r in means if r["method"] == row["method"]] for row in means}
    assert sides["full local"][0] < sides["throw-away"][0]
    assert sides["full local"][-1] > sides["throw-away"][-1]
    assert report.png.stat().st_size > 5_000
