"""The test that detects each planted fault; `tests/test_tiers.py` checks that each exists and is in `make test`."""

PLANTED: dict[str, dict[str, str]] = {
    "what a release promises, by record and replay": {
        "an answer that no release gave": "test_axis_replay.py::test_catches_an_answer_that_bypasses_release",
        "a clipping radius from private rows": "test_gaussian_replay.py::test_catches_clipping_to_a_private_radius",
        "a budget that is spent twice": "test_record_replay.py::test_spending_twice_is_caught_under_every_notion",
        "a key of a person that counts twice": "test_count_persons.py"
        "::test_keys_that_a_person_has_twice_are_caught_by_all_neighbors",
        "a cell for the padding of persons' keys": "test_count_persons.py::test_padding_in_a_cell_is_caught_by_all_neighbors",
        "cells of unlisted keys that are not charged": "test_count_persons.py::test_planted_faults_are_caught_by_replays",
        "a count of persons with more rows on top of the whole budget": "test_rows_left_out.py"
        "::test_planted_fault_a_count_on_top_of_the_whole_budget_is_caught",
        "a count of persons with more rows than others": "test_rows_left_out.py"
        "::test_planted_fault_a_count_relative_to_other_persons_is_caught",
        "a sum of each person that is a mean": "test_pairs_of_persons.py"
        "::test_planted_fault_a_sum_that_is_a_mean_is_caught",
        "rows of persons that agree in half of their hashes": "test_rows_of_persons.py"
        "::test_planted_fault_rows_that_agree_in_half_of_their_bits_are_caught",
        "an array in the order of the source beside persons": "test_arrays_beside_persons.py"
        "::test_planted_fault_an_array_beside_persons_is_caught",
        "a condition that reads the mean of all rows": "test_where.py"
        "::test_planted_fault_a_condition_on_the_mean_of_all_rows_is_caught",
        "persons of the rows inside a condition": "test_where.py"
        "::test_planted_fault_persons_of_the_rows_inside_are_caught_by_replay",
        "identifiers of the rows inside a condition": "test_where.py"
        "::test_planted_fault_persons_of_the_rows_inside_are_other_persons",
        "a branch on private rows": "test_record_replay.py::test_planted_bugs_are_caught",
        "a row that counts twice": "test_stable_replay.py::test_catches_a_row_that_counts_twice",
        "an incomplete row that counts twice": "test_gaussian_replay.py"
        "::test_catches_an_incomplete_row_that_counts_twice",
        "a count of complete rows that is not free": "test_gaussian_replay.py"
        "::test_catches_a_count_of_complete_rows_that_is_not_free",
        "an incomplete row in a sum": "test_gaussian_replay.py::test_catches_an_incomplete_row_in_the_sum",
        "blocks of rows that overlap": "test_axis_replay.py::test_catches_blocks_that_overlap",
        "blocks that follow the values": "test_stable_replay.py::test_catches_blocks_that_follow_the_values",
        "bins that are hidden and still told": "test_stable_replay.py::test_catches_suppressed_bins_in_the_result",
        "an event that is too cheap": "test_stable_replay.py::test_catches_an_event_that_is_too_cheap",
        "cells that follow the rows": "test_stable_replay.py::test_catches_cells_that_follow_the_rows",
        "a score in the result": "test_stable_replay.py::test_catches_a_score_in_the_result",
        "a cheaper law of choices": "test_stable_replay.py"
        "::test_catches_permute_and_flip_at_the_price_of_the_exponential_mechanism",
        "edges of bins from private rows": "test_gaussian_replay.py::test_catches_edges_that_follow_private_rows",
        "rounds that follow private rows": "test_gaussian_replay.py::test_catches_rounds_that_follow_private_rows",
        "directions that follow private rows": "test_mixture_replay.py"
        "::test_without_public_rows_directions_that_follow_the_rows_are_caught",
        "a last round that forgets a stage": "test_without_public_rows.py"
        "::test_a_last_round_that_forgets_a_stage_is_refused",
        "a count of the fit on top of the whole budget": "test_one_column.py"
        "::test_planted_fault_a_count_on_top_of_the_whole_budget_is_refused",
        "a cut that looks at private rows": "test_mixture_replay.py::test_catches_a_cut_that_looks_at_private_rows",
        "a tree that asks too often": "test_mixture_replay.py::test_catches_a_tree_that_asks_too_often",
        "cells of a fit that follow other rows": "test_mixture_replay.py"
        "::test_catches_a_count_of_theory_whose_cells_follow_other_rows",
        "a cost that was forgotten": "test_record_replay.py::test_a_cost_that_was_forgotten_is_caught",
        "a gradient that is not clipped": "test_gradient_replay.py::test_a_gradient_that_is_not_clipped_is_caught",
        "a batch that depends on rows": "test_gradient_replay.py::test_a_batch_that_depends_on_rows_is_caught",
        "a scale of labels from private rows": "test_gradient_replay.py::test_a_scale_from_private_rows_is_caught",
        "a count of one group that is too heavy": "test_bounded_means.py::test_a_count_that_is_too_heavy_is_caught",
        "the weight of one group with several": "test_group_means.py"
        "::test_a_moved_row_takes_nearly_the_whole_cost_and_planted_faults_are_caught",
        "a route that private rows choose": "test_bounded_means.py::test_a_route_that_private_rows_choose_is_caught",
        "half the sensitivity of an output": "test_output_perturbation.py::test_half_the_sensitivity_is_caught",
        "a unit of labels from private labels": "test_unlabeled.py"
        "::test_planted_fault_a_unit_from_private_labels_is_caught",
    },
    "sensitivities, over random neighbors": {
        "a sum whose rows are rounded up": "test_sensitivity.py::test_planted_bug_in_a_sum_is_caught",
        "a Gram matrix of rows that are too long": "test_sensitivity.py::test_planted_bug_in_a_gram_is_caught",
        "scores that count a row twice": "test_gaussian_methods.py::test_replay_catches_scores_counted_twice",
        "counts priced as if one cluster changed": "test_rows_that_stay_or_move.py"
        "::test_catches_counts_priced_as_if_one_cluster_changed",
    },
    "accounting and calibration": {
        "costs of blocks of columns composed by their maximum": "test_blocks_of_columns.py"
        "::test_planted_fault_costs_composed_by_their_maximum_are_caught",
        "a grid that is one step too fine": "test_calibration.py::test_planted_bug_is_caught",
        "a threshold that ignores the step": "test_calibration.py"
        "::test_the_check_catches_a_threshold_that_ignores_the_step",
        "losses that are rounded down": "test_conversions.py::test_planted_fault_losses_rounded_down_are_caught",
        "a profile without its rounding bound": "test_calibration.py"
        "::test_planted_fault_a_profile_without_its_rounding_bound_is_caught",
        "the other relation of neighbors": "test_calibration.py::test_a_planted_fault_of_the_relation_is_seen",
    },
    "noise": {
        "truncation in place of a floor": "test_noise_laws.py::test_wrong_noise_is_caught",
        "a second zero of the Laplace law": "test_noise_laws.py::test_double_zero_of_the_laplace_law_is_caught",
        "noise in single precision": "test_noise_laws.py::test_wrong_noise_is_caught",
        "blocks of the key stream used again": "test_noise_laws.py::test_wrong_noise_is_caught",
        "tails that are cut": "test_noise_laws.py::test_wrong_noise_is_caught",
        "eight tenths of the noise": "test_black_box.py::test_gaussian_sum_in_short",
        "a key taken before the fork": "test_release_fork.py::test_control_a_key_taken_before_the_query_is_shared",
        "a report with the wrong cap": "test_randomizers.py::test_a_planted_fault_is_caught",
    },
    "the ledger": {
        "an answer before its debit": "test_ledger.py::test_planted_bug_acknowledging_before_the_debit_is_caught",
        "a read before its debit": "test_crashes.py::test_control_the_check_finds_a_read_before_its_debit",
        "a second kind of person": "test_ledger_persons.py::test_planted_fault_a_check_before_the_lock_is_caught",
        "a table whose ledger forgets its persons": "test_private_table.py"
        "::test_planted_fault_a_ledger_that_forgets_its_persons_is_seen",
        "a choice of rows that two calls pay for": "test_private_table.py"
        "::test_planted_fault_a_table_without_a_lock_pays_twice",
        "a file that was rolled back": "test_ledger_file.py::test_planted_faults_release_one_and_a_half_and_are_caught",
        "a lock that stays": "test_ledger_processes.py::test_planted_fault_closing_without_unlocking_is_caught",
        "a reader that believes its file": "test_ledger_fuzz.py::test_planted_faults_in_the_reader_are_found",
        "an error after the debit": "test_spending.py::test_control_an_error_after_the_debit_is_caught",
        "a table that lets a debit through": "test_bad_arguments.py::test_a_table_that_lets_a_debit_through_is_caught",
    },
    "rows see only themselves": {
        "a step of a Dask array that looks at other rows": "test_plans.py"
        "::test_planted_fault_a_function_that_looks_at_other_rows_is_seen",
        "a sum over columns in another order": "test_alone_and_in_company.py::test_a_reduction_over_columns_is_caught",
        "a product of BLAS": "test_alone_and_in_company.py::test_a_product_is_caught",
        "a label from a norm": "test_alone_and_in_company.py::test_a_label_from_a_norm_is_caught",
        "an infinite entry that counts": "test_alone_and_in_company.py::test_an_infinite_entry_that_counts_is_caught",
        "rows that a loss mixes": "test_gradient_replay.py::test_rows_that_a_loss_mixes_are_caught",
        "a parser of whole files": "test_text_rows.py::test_a_reader_that_trusts_a_parser_of_whole_files_is_caught",
    },
    "nothing leaks": {
        "names of a file without a header": "test_private_table.py"
        "::test_planted_fault_a_representation_with_the_names_of_a_csv_file_is_seen",
        "private values in messages and frames": "test_leaks.py::test_the_scrape_sees_planted_leaks",
        "guards that let text through": "test_leaks.py::test_planted_guards_that_let_text_through",
    },
    "kernels and their twins": {
        "a product that rounds once less": "test_rows.py::test_plants_are_caught",
        "a row that its neighbors count": "test_columns.py::test_a_row_that_is_counted_by_its_neighbors_is_caught",
        "a missing shell": "test_public_shapes.py::test_that_test_notices_a_missing_shell",
        "cells of a line that are too coarse": "test_one_column.py"
        "::test_planted_fault_cells_that_are_too_coarse_are_seen",
        "edges on rounded values": "test_one_column.py::test_planted_fault_edges_on_rounded_values_are_seen",
    },
    "published numbers and comparisons": {
        "all counts moved together": "test_published.py::test_planted_fault_moving_all_counts_together_is_caught",
        "clipped counts": "test_published.py::test_planted_fault_clipped_counts_do_not_add_up",
        "padding that counts as missing": "test_rows_in_use.py"
        "::test_planted_fault_padding_that_counts_as_missing_is_seen",
        "keys of one table taken as independent": "test_comparisons.py"
        "::test_planted_fault_keys_of_one_table_are_not_independent",
        "half-widths that are added": "test_comparisons.py"
        "::test_planted_fault_half_widths_that_are_added_are_too_wide",
        "a total without the noise of its count": "test_comparisons.py"
        "::test_planted_fault_a_total_without_the_noise_of_its_count",
    },
    "predictions and intervals": {
        "1: noise of vectors that is a tenth too large": "test_engine.py"
        "::test_noise_of_vectors_a_tenth_too_large_is_found",
        "2: counts whose noise is said to be larger": "test_planted_faults.py"
        "::test_2_counts_whose_noise_is_said_to_be_larger_are_found",
        "3: last counts of quantiles whose noise is said to be larger": "test_planted_faults.py"
        "::test_3_last_counts_whose_noise_is_said_to_be_larger_are_found",
        "4: ends of quantiles without sampling": "test_engine.py::test_quantile_ends_without_sampling_are_found",
        "5: ends of quantiles of half their reach": "test_planted_faults.py"
        "::test_5_quantile_ends_of_half_their_reach_are_found",
        "6: means of groups without sampling": "test_engine.py::test_groups_without_sampling_are_found",
        "7: means of groups without clipping": "test_planted_faults.py::test_7_groups_without_clipping_are_found",
        "8: half the noise of means of groups": "test_planted_faults.py"
        "::test_8_half_the_noise_of_means_of_groups_is_found",
        "9: a width that decides without clipping": "test_planted_faults.py"
        "::test_9_a_width_that_decides_without_clipping_is_found",
        "10: clip ends that move after the boxes were chosen": "test_planted_faults.py"
        "::test_10_clip_ends_that_move_after_the_boxes_were_chosen_are_found",
        "11, 12: intervals of a mean without its tails": "test_engine.py"
        "::test_an_interval_of_a_mean_without_its_tails_is_found",
        "the distance of a mixture at half its deviations": "test_fit.py"
        "::test_an_interval_of_half_the_deviations_is_noticed",
        "a count of theory that was not reserved": "test_fit.py::test_a_count_that_was_not_reserved_is_refused",
        "parts of a half-width without undetected rows": "test_interval_parts.py"
        "::test_a_half_without_undetected_rows_is_not_the_interval",
        "13: a mean without sampling, or without clipping": "test_engine.py::test_a_mean_without_a_term_is_found",
        "14: a normal law under Laplace noise": "test_engine.py::test_a_normal_law_under_laplace_noise_is_found",
        "15: intervals of a Gaussian of half their width": "test_engine.py"
        "::test_intervals_of_a_gaussian_of_half_their_width_are_found",
        "16: correlations without their error": "test_engine.py::test_correlations_without_their_error_are_found",
        "17: a regression that leaves sampling out": "test_engine.py"
        "::test_a_regression_that_leaves_sampling_out_is_found",
        "a fit of made-up labels": "test_unlabeled.py::test_planted_fault_a_fit_of_made_up_labels_is_caught",
        "18: directions that noise turns": "test_planted_faults.py::test_18_directions_that_noise_turns_are_found",
        "19: directions that are unseen from one deviation": "test_planted_faults.py"
        "::test_19_directions_that_are_unseen_from_one_deviation_are_found",
        "20: a quarter of the noise of coefficients": "test_planted_faults.py"
        "::test_20_a_quarter_of_the_noise_of_coefficients_is_found",
        "21: counts of half their width": "test_engine.py::test_count_intervals_of_half_their_width_are_found",
        "22: counts of the population without sampling": "test_planted_faults.py"
        "::test_22_counts_of_the_population_without_sampling_are_found",
        "23: a plan of counts that is five times too large": "test_engine.py"
        "::test_a_plan_of_counts_that_is_five_times_too_large_is_found",
        "24: a plan of quantiles without their share": "test_planted_faults.py"
        "::test_24_a_plan_of_quantiles_without_their_share_is_found",
        "25: a plan of a mean that spends the part of the cells": "test_planted_faults.py"
        "::test_25_a_plan_of_a_mean_that_spends_the_part_of_the_cells_is_found",
        "26: an error of a covariance with too few entries": "test_planted_faults.py"
        "::test_26_an_error_of_a_covariance_with_too_few_entries_is_found",
        "27: bounds of quantiles in reversed order": "test_planted_faults.py"
        "::test_27_bounds_of_quantiles_in_reversed_order_are_found",
        "28: labels of groups that are rotated": "test_engine.py::test_labels_of_groups_that_are_rotated_are_found",
        "29: weights of classes that are ignored": "test_engine.py::test_class_weights_that_are_ignored_have_no_effect",
        "30: rows with gaps that are not left out": "test_planted_faults.py"
        "::test_30_rows_with_gaps_that_are_not_left_out_are_found",
        "a box that decodes what another encoded": "test_line.py::test_a_box_restores_the_mean_of_what_it_clips",
        "a term of intervals of means that is zero": "test_terms_of_intervals.py"
        "::test_intervals_hold_the_mean_and_each_term_is_a_part_of_them",
        "an upper end that is a tenth too far": "test_reaches.py"
        "::test_an_upper_end_that_is_a_tenth_too_far_is_found",
        "a lower end of a mean that is a tenth too near": "test_reaches.py"
        "::test_a_lower_end_of_a_mean_that_is_a_tenth_too_near_is_found",
        "an upper end of quantiles that is too far": "test_reaches.py"
        "::test_an_upper_end_of_quantiles_that_is_too_far_is_found",
        "a tail of another size": "test_reaches.py::test_a_tail_of_another_size_is_found",
        "a worst case of another size": "test_reaches.py::test_a_worst_case_of_another_size_is_found",
        "a mean within bounds without sampling": "test_bounded_means.py::test_a_deviation_of_nothing_is_caught",
        "missing values that noise hides": "test_bounded_means.py"
        "::test_missing_values_that_are_not_allowed_for_are_caught",
        "bounds that always replace counts": "test_bounded_means.py::test_bounds_that_always_replace_counts_are_caught",
        "a false-alarm rate without a floor": "test_far_minorities.py"
        "::test_planted_rate_without_a_floor_loses_a_tenth_of_rows",
        "a condition that is ignored": "test_conditions.py::test_the_sweep_sees_a_condition_that_is_ignored",
        "an argument without a case": "test_truth.py::test_a_new_argument_without_a_case_is_seen",
        "an argument that is accepted and ignored": "test_engine.py"
        "::test_an_argument_that_is_accepted_and_ignored_is_found",
        "a keyword that quantiles ignores": "test_rare_methods.py::test_a_keyword_that_quantiles_would_ignore_is_found",
        "ends of quantiles from ranks in ascending order": "test_quantiles.py"
        "::test_an_interval_reaches_the_atom_at_the_end_of_a_stretch_of_equal_ranks",
        "positive noise that is counted as rows of a group": "test_quantiles.py"
        "::test_cells_without_rows_add_none_to_a_group_of_unknown_size",
        "light tails that count rows of padding": "test_rows_in_use.py"
        "::test_methods_that_take_padding_for_rows_at_a_center_refuse_it_before_the_debit",
        "printed counts that end at the number of persons": "test_truth.py"
        "::test_printed_counts_of_two_rows_of_each_person_may_be_more_than_the_persons",
    },
    "what is written down": {
        "a wrong example": "test_docs.py::test_a_wrong_example_is_noticed",
        "a parameter that nobody describes": "test_docs.py::test_the_check_of_descriptions_catches",
        "a release without its note": "test_rules.py::test_note_rule_catches",
        "a module that breaks a rule": "test_rules.py::test_rule_catches",
    },
    "tests": {
        "a recorded mean that moved": "test_golden_results.py::test_a_mean_that_moved_is_said_in_its_noise",
        "a tight clock": "test_rules.py::test_rule_catches",
        "a generator without a seed": "test_rules.py::test_rule_catches",
        "a process with keys of its own": "test_fixed_keys.py::test_a_planted_process_with_keys_of_its_own_is_caught",
        "fresh keys without a reason": "test_fixed_keys.py::test_fresh_keys_need_a_reason",
    },
}
