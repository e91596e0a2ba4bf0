"""Selection of the tests of `make test` and of `make test-all`, their durations, and a time limit of a run.

By default a grid runs every value of every parameter, not every combination, and kernels run on the best instruction set of the
machine. Other tests of `make test-all` only are listed in EXTENDED: forks, kills, clusters, fresh interpreters, wheels, plots, the
book. A run of pytest without `-m` has both tiers.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from clocks import Limit

EXTENDED = (
    # Fresh interpreters and builds.
    "tests/test_fixed_keys.py::test_two_runs_of_a_planted_file",
    "tests/test_fixed_keys.py::test_nothing_runs_beside_fresh_keys_without_a_reason",
    "tests/test_fixed_keys.py::test_spawned_processes_too",
    "tests/test_first_calls.py",
    "tests/test_wheel.py",
    "tests/test_c_library.py",
    "tests/test_views.py",
    "tests/mechanisms/test_stable_memory.py",
    "tests/estimators/test_blocks_of_columns.py::test_peak_memory_of_many_columns",
    "tests/cli/test_deliver.py::test_pipes_and_full_devices_of_a_shell",
    "tests/cli/test_deliver.py::test_a_closed_standard_output",
    "tests/cli/test_local_commands.py::test_two_ends_of_a_pipe",
    "tests/cli/test_local_commands.py::test_nobody_reads_the_pipe",
    "tests/cli/test_local_commands.py::test_an_interrupt_from_outside",
    # Forks, clusters, and files larger than memory.
    "tests/robustness/test_dask_cluster.py",
    "tests/sources/test_fold.py::test_fork_and_spawn",
    "tests/sources/test_fold.py::test_files_larger_than_memory_are_read_in_pieces",
    "tests/sources/test_fold.py::test_progress_on_a_terminal_after_a_while",
    "tests/sources/test_fold.py::test_with_little_memory_for_threads_the_answer_is_the_same",
    "tests/robustness/test_crashes.py::test_kill_at_random_times",
    # The book, pages, figures and published tables.
    "tests/test_book.py",
    "tests/test_benchmarks.py",
    "tests/test_plots.py",
    "tests/demo",
    "tests/papers",
    # Kernels that read public rows only.
    "tests/kernels/test_geometry.py::test_a_thousand_adversarial_sets",
    # Long measurements and computations.
    "tests/scikit_learn/test_estimators.py::test_scikit_learns_own_checks",
    "tests/privacy/test_ledger.py::test_kill_loses_no_acknowledged_debit",
    "tests/privacy/test_conversions.py::test_gdp_delta_is_above_the_exact_value_by_at_most_1e_12",
    "tests/auditing/test_black_box.py::test_tracing_flags_a_tenth_of_the_noise_of_a_central_mean",
    "tests/auditing/test_black_box.py::test_tracing_flags_a_tenth_of_the_noise_of_reports",
    "tests/auditing/test_black_box.py::test_vector_sum_of_rows",
    "tests/mechanisms/test_hypotheses.py::test_choices_follow_permute_and_flip",
    # Accuracy and plans beyond the closed forms.
    "tests/local/test_training.py::test_the_bound_is_that_of_the_paper_or_better",
    "tests/mixtures/test_axis_search.py::test_fits_are_near_the_truth_in_any_unit",
    "tests/mixtures/test_axis_aligned.py::test_the_order_of_the_rows_does_not_matter",
    "tests/mixtures/test_decoders.py::test_columns_together",
    "tests/mixtures/test_decoders.py::test_a_warning_where_the_theorem_asks_for_more",
    "tests/planning/test_planning.py::test_the_learner_comes_as_close_as_predicted",
    "tests/planning/test_planning.py::test_the_choice_turns_where_the_plan_says",
    "tests/planning/test_planning.py::test_the_plan_is_what_train_predicts_for_rows_with_weights",
    "tests/gradient/test_gradient.py::test_each_method_beats_the_public_rows",
    "tests/gradient/test_gradient.py::test_a_choice_among_public_models",
    "tests/regression/test_intervals.py::test_a_line_that_bends_in_the_tail_is_flagged_and_its_interval_is_wide",
    "tests/planning/test_planning.py::test_with_few_public_rows_the_plan_says_that_it_guesses",
    "tests/planning/test_planning.py::test_solves_for_rows_and_budget_of_train",
    "tests/planning/test_planning.py::test_solving_works_out_the_sizes_of_the_theorem_once",
    "tests/planning/test_planning.py::test_rows_for_distant_components",
    "tests/planning/test_planning.py::test_rows_for_distant_components_with_a_tenth_of_epsilon",
    "tests/regression/test_private_weights.py::test_stated_ranges_take_the_place_of_public_scales",
    "tests/regression/test_private_weights.py::test_weights_of_classes_are_those_of_a_weighted_likelihood",
    "tests/regression/test_regression_accuracy.py::test_few_public_rows_of_a_strong_signal",
    "tests/regression/test_regression.py::test_every_source_of_text_gives_the_same_bits",
    "tests/training/test_methods.py::test_public_rows_alone_cost_nothing_for_any_loss",
    "tests/training/test_methods.py::test_the_plan_knows_every_method",
    "tests/regression/test_intervals.py::test_fewer_than_two_public_rows_for_each_coefficient_leave_no_interval",
    "tests/regression/test_intervals.py::test_no_method_is_worse_than_next_to_no_public_rows_alone",
    "tests/regression/test_regression_accuracy.py::test_it_is_no_worse_than_public_rows_alone",
    "tests/gaussians/test_gaussian_methods.py::test_cover_covers",
    "tests/gaussians/test_covariance.py::test_more_steps_keep_improving_at_condition_100",
    "tests/estimators/test_coinpress.py::test_intervals_hold_on_columns_of_any_shape_and_unit",
    "tests/estimators/test_real_columns.py::test_few_rows_on_one_side_of_the_public_row_are_not_all_clipped_to_it",
    "tests/gaussians/test_ladder.py::test_rows_of_the_specification",
    "tests/estimators/test_coinpress.py::test_coverage",
    "tests/mixtures/test_list_decoding_sizes.py",
    "tests/mixtures/test_ties.py",
    "tests/mixtures/test_axis_aligned.py::test_rows_too_few_to_show_any_place_are_said_before_they_are_paid_for",
    "tests/mixtures/test_axis_aligned.py::test_units_of_columns_do_not_matter",
    "tests/mixtures/test_axis_aligned.py::test_private_rows_improve_on_the_public_ones",
    "tests/mixtures/test_axis_aligned.py::test_one_column_without_public_rows_finds_the_cases",
    "tests/estimators/test_estimate_mean.py::test_monte_carlo_error_agrees_with_the_closed_form",
    "tests/gaussians/test_gaussian.py::test_errors_are_the_predicted_ones",
    "tests/local/test_training.py::test_it_learns_within_its_bound",
    "tests/truth/test_conditions.py::test_no_pair_of_arguments_beside_a_condition_prints_what_is_not_true",
)
# Number of rows of parameters that run by default, evenly spaced; or the indices of those that run.
THINNED: dict[str, int | tuple[int, ...]] = {
    "tests/robustness/test_alone_and_in_company.py::test_rows_contribute_the_same_alone_and_in_company": (
        1,
    ),
    "tests/auditing/test_axis_replay.py::test_random_neighbors": (0, 3, 8, 9),
    "tests/auditing/test_axis_replay.py::test_every_block_of_the_cells_without_public_rows": 1,
    "tests/auditing/test_black_box.py::test_sound_randomizers_pass_and_the_bound_is_close": 2,
    "tests/mechanisms/test_hypotheses.py::test_privacy_over_all_neighbors": 4,
    "tests/robustness/test_spending.py::test_hostile_public_arguments": 30,
    "tests/kernels/test_pair_kernels.py::test_roots_equal_twin": 1,
    "tests/robustness/test_spending.py::test_large_and_small_budgets_are_kept_or_refused_at_the_door": 20,
    "tests/robustness/test_damaged_json.py::test_json_with_one_field_changed": 7,
    "tests/robustness/test_dask_calls.py::test_the_same_bits_as_in_memory": 12,
    "tests/robustness/test_wild_public_rows.py::test_a_finite_answer_or_advice": 40,
    "tests/planning/test_planning.py::test_the_plan_is_what_train_predicts": 2,
    "tests/privacy/test_calibration.py::test_against_direct_quadrature": 3,
    "tests/privacy/test_conversions.py::test_against_dp_accounting_of_pld": 3,
    "tests/estimators/test_real_columns.py::test_intervals_hold_and_are_of_a_sensible_width": 4,
    "tests/estimators/test_real_columns.py::test_gaussian_columns_cost_a_tenth_more_than_being_told_their_variance": 2,
    "tests/sources/test_text_rows.py::test_long_cells_at_several_offsets": 2,
    "tests/tables/test_where.py::test_the_truth_of_the_rows_inside_is_in_the_interval": (0, 3),
    "tests/tables/test_where.py::test_the_truth_of_persons_is_in_the_interval": (1, 5),
}


def listed(nodeid: str, entries: Iterable[str]) -> bool:
    """Return whether a test, its file or one of its folders is in a list."""
    name = nodeid.split("[")[0]
    return any(name == entry or name.startswith((entry + "::", entry + "/")) for entry in entries)


Point = frozenset[tuple[object, object]]


def point_of(item: pytest.Function) -> Point:
    """Return the coordinates of a test in its grid: the row of each parametrization, and the parts of an id like `zcdp: newton`."""
    params = item.callspec.params
    groups = []
    for mark in item.iter_markers("parametrize"):
        names = mark.kwargs.get("argnames") or mark.args[0]
        groups.append(
            tuple(name.strip() for name in names.split(","))
            if isinstance(names, str)
            else tuple(names)
        )
    groups += [(name,) for name in params if not any(name in group for group in groups)]
    if len(groups) == 1 and ": " in item.callspec.id:
        return frozenset(enumerate(item.callspec.id.split(": ", 1)))
    return frozenset((group, tuple(id(params[name]) for name in group)) for group in groups)


def covering(points: Sequence[Point]) -> set[int]:
    """Return few indices of a list that cover every coordinate value of its points."""
    if all(len(point) == 1 for point in points):
        return {place for place, point in enumerate(points) if point not in points[:place]}
    missing = set().union(*points)
    chosen = set[int]()
    while missing:
        best = max(range(len(points)), key=lambda place: (len(missing & points[place]), -place))
        chosen.add(best)
        missing -= points[best]
    return chosen


def extended(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Return the tests that only `make test-all` runs."""
    grids: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = item.nodeid.split("[")[0]
        if listed(name, EXTENDED):
            yield item
        elif hasattr(item, "callspec") and not item.get_closest_marker("extended"):
            grids[name].append(item)
    for name, grid in grids.items():
        if name in THINNED:
            some = THINNED[name]
            kept = (
                {round(k * (len(grid) - 1) / max(1, some - 1)) for k in range(some)}
                if isinstance(some, int)
                else set(some)
            )
        else:
            kept = covering([point_of(item) for item in grid])
        yield from (item for place, item in enumerate(grid) if place not in kept)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the Makefile."""
    group = parser.getgroup("tiers")
    group.addoption(
        "--keep-durations",
        metavar="FILE",
        help="write down how long each test took, the longest first",
    )
    group.addoption(
        "--end-after", type=float, metavar="SECONDS", help="skip what has not begun by then"
    )


def leaves_out_extended(expression: str) -> bool:
    """Return whether `-m` selects the default tier."""
    return "not extended" in expression


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files without a selected test."""
    name = os.path.relpath(collection_path, config.rootpath)
    left_out = leaves_out_extended(config.getoption("markexpr", "")) and listed(name, EXTENDED)
    return True if left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the marks before `-m` selects by them."""
    for item in list(extended(items)):
        item.add_marker("extended")


def pytest_configure(config: pytest.Config) -> None:
    """Start the time of `--end-after`; the process with the terminal records the durations."""
    config.pluginmanager.register(Ending(config.getoption("--end-after")), "ending")
    path = config.getoption("--keep-durations")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(Path(path)), "kept_durations")


class Ending:
    """Plugin that skips tests that have not started when the time is up."""

    def __init__(self, seconds: float | None) -> None:
        self.limit = Limit(seconds)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip before any fixture of the test is set up."""
        if self.limit.over():
            pytest.skip("no time was left")


class Durations:
    """Plugin that writes the seconds of each test, including its fixtures, to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration, also of tests in other processes."""
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the durations, longest first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        ranked = sorted(self.seconds.items(), key=lambda pair: -pair[1])
        lines = [
            f"{sum(self.seconds.values()):9.2f} s, {len(ranked)} tests",
            *(f"{s:9.3f} {name}" for name, s in ranked),
        ]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
