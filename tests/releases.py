"""One release by itself, without a run: the measurement of each mechanism, as a call."""

from fastpubpriv.mechanisms import cells, group_covariances, histograms, leaves, selection, sums


def released(kind, account, rows, *, name, cost, executor, **fields):
    """What an account pays for and gets."""
    return kind(**fields).release(account, rows, executor, name=name, cost=cost)


def release_vector_sum(account, rows, affine, **options):
    return released(sums.VectorSum, account, rows, affine=affine, **options)


def release_second_moment(account, rows, affine, **options):
    return released(sums.SecondMoment, account, rows, affine=affine, **options)


def release_shell_counts(account, rows, affine, **options):
    return released(sums.ShellCounts, account, rows, affine=affine, **options)


def release_leaf_counts(account, rows, routes, **options):
    return released(leaves.LeafCounts, account, rows, routes=routes, **options)


def release_leaf_sums(account, rows, routes, affines, **options):
    return released(leaves.LeafSums, account, rows, routes=routes, affines=affines, **options)


def release_leaf_second_moments(account, rows, routes, affines, **options):
    return released(leaves.LeafSecondMoments, account, rows, routes=routes, affines=affines, **options)


def release_cell_counts(account, rows, edges, **options):
    return released(cells.CellCounts, account, rows, edges=edges, **options)


def release_code_counts(account, rows, codes, sizes, **options):
    return released(cells.CodeCounts, account, rows, codes=codes, cells=sizes, **options)


def release_statistic_sum(account, rows, statistic, **options):
    return released(sums.StatisticSum, account, rows, statistic=statistic, **options)


def release_soft_grams(account, rows, statistic, **options):
    return released(sums.SoftGrams, account, rows, statistic=statistic, **options)


def release_histograms(account, rows, partitions, **options):
    """With all that the account has left, if nothing else is said."""
    options.setdefault("cost", account.approx_left)
    return released(histograms.StableHistograms, account, rows, partitions=partitions, **options)


def release_choice_of(account, rows, evaluation, **options):
    return released(selection.HypothesisChoice, account, rows, evaluation=evaluation, **options)


def release_agreement(account, rows, base, groups, **options):
    return released(group_covariances.GroupAgreement, account, rows, base=base, groups=groups, **options)
