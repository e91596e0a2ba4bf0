"""Single releases without a session: the measurement of each mechanism, as a call."""

from fastpubpriv.mechanisms import (
    cells,
    group_covariances,
    leaves,
    selection,
    stable_histograms,
    sums,
)


def release_of(kind, *fields):
    """Return a function of an account, rows and fields of a measurement, which makes the release."""

    def released(account, rows, *given, name, cost, executor, **options):
        measurement = kind(**dict(zip(fields, given, strict=True)), **options)
        return measurement.release(account, rows, executor, name=name, cost=cost)

    return released


release_vector_sum = release_of(sums.VectorSum, "affine")
release_second_moment = release_of(sums.SecondMoment, "affine")
release_shell_counts = release_of(sums.ShellCounts, "affine")
release_leaf_counts = release_of(leaves.LeafCounts, "routes")
release_leaf_sums = release_of(leaves.LeafSums, "routes", "affines")
release_leaf_second_moments = release_of(leaves.LeafSecondMoments, "routes", "affines")
release_cell_counts = release_of(cells.CellCounts, "edges")
release_code_counts = release_of(cells.CodeCounts, "codes", "cells")
release_statistic_sum = release_of(sums.StatisticSum, "statistic")
release_soft_grams = release_of(sums.SoftGrams, "rows_of")
release_choice_of = release_of(selection.HypothesisChoice, "evaluation")
release_agreement = release_of(group_covariances.GroupAgreement, "base", "groups")


def release_histograms(account, rows, partitions, **options):
    """Release histograms; by default with the remaining budget of the account."""
    options.setdefault("cost", account.approx_left)
    return release_of(stable_histograms.StableHistograms, "partitions")(
        account, rows, partitions, **options
    )
