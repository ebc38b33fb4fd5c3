"""Which tests are not in the quick lane, and which only in the wide one.

``make quick`` leaves out those that train, play long games or start programs. ``make test`` leaves
out the wide ones alone: long simulations of how often something errs, and audits of whole learners,
whose laws and noise are tested without a simulation beside them; ``make wide`` runs everything. One
table instead of a mark in every module, so that the lanes can be read at one place.
"""

from pathlib import Path

# Folders and files below tests/, without their ending, and parts of dpassay whose doctests train.
SLOW = (
    "adversaries",
    "attacks",
    "auditing",
    "bounds/onerun",
    "bounds/test_bayes",
    "bounds/test_betting",
    "bounds/test_curve_tests",
    "bounds/test_conditional",
    "bounds/test_location",
    "bounds/test_metrics",
    "bounds/test_pooled",
    "bounds/test_scores",
    "bounds/test_sequential",
    "bounds/test_steps",
    "bounds/test_worst_case",
    "canaries",
    "cli",
    "learn",
    "mechanisms/test_choosing",
    "mechanisms/test_selection",
    "nets",
    "optim",
    "plugin",
    "privacy/test_accounting",
    "privacy/test_allocation",
    "privacy/test_brackets",
    "privacy/test_calibration",
    "privacy/test_fourier",
    "privacy/test_groups",
    "privacy/test_ledger",
    "privacy/test_loss_distribution",
    "privacy/test_margins",
    "replay",
    "report",
    "reproduce",
    "runs/test_clusters",
    "runs/test_engines",
    "runs/test_hostile",
    "runs/test_parts",
    "runs/test_play",
    "runs/test_survival",
    "synth",
    "test_datasets",
    "test_docs",
    "test_examples",
    "test_golden",
    "test_handed",
    "test_no_record_is_quoted",
    "test_probe",
    "test_skips",
    "test_special",
    "test_threads",
    "test_typing",
    "zoo",
)

# Tests below tests/, by file and function; with a bracket, those of its cases that begin so.
WIDE = (
    "adversaries/test_game.py::test_no_adversary_refutes_the_truth",
    "attacks/test_membership.py::test_bounds_hold_as_often_as_stated",
    "attacks/test_membership.py::test_false_alarms_are_as_rare_as_stated",
    "attacks/test_private_models.py::test_the_ceilings_hold",
    "auditing/test_audit.py::test_the_bundled_learners[2",
    "auditing/test_audit.py::test_the_bundled_learners[3",
    "auditing/test_audit.py::test_the_bundled_learners[4",
    "auditing/test_audit.py::test_the_bundled_learners[5",
    "auditing/test_plan.py::test_orders_of_magnitude",
    "auditing/test_plan.py::test_the_planned_number_has_the_stated_power",
    "auditing/test_referee.py::test_a_true_claim_is_seldom_refuted",
    "bounds/onerun/test_one_run.py::test_bounds_with_delta_are_wrong_at_most_as_often_as_they_say",
    "bounds/test_location.py::test_it_errs_as_often_as_it_says",
    "bounds/test_metrics.py::test_auc_interval_covers",
    "bounds/test_pooled.py::test_it_is_valid_at_every_threshold",
    "bounds/test_scores.py::test_bounds_cover_on_gaussian_scores",
    "bounds/test_sequential.py::test_a_bound_is_the_same_in_any_batch[pairs",
    "bounds/test_sequential.py::test_a_bound_is_the_same_in_any_batch[shared-seed",
    "bounds/test_sequential.py::test_a_mechanism_that_just_meets_its_claim_is_rarely_refuted[pairs",
    "bounds/test_sequential.py::"
    "test_a_mechanism_that_just_meets_its_claim_is_rarely_refuted[shared-seed",
    "bounds/test_sequential.py::test_dependent_pairs_are_not_safe_with_the_product_form",
    "bounds/test_sequential.py::test_epsilon_4_is_soon_told_from_a_claim_of_2",
    "canaries/test_watch_processes.py::test_two_processes_train_one_model_and_the_first_judges_it",
    "cli/test_work.py::test_parts_that_are_killed_end_with_the_verdict_of_one_machine",
    "learn/test_audits.py::test_gradient_steps",
    "learn/test_audits.py::test_lasso",
    "learn/test_audits.py::test_objective_perturbation[",
    "learn/test_audits.py::test_search",
    "learn/test_ridge.py::test_audit_on_a_worst_case_pair",
    "learn/test_risk.py::test_a_search_keeps_a_risk",
    "learn/test_search.py::test_audit_of_a_hostile_selection",
    "optim/test_audits.py::test_so_have_the_other_kinds",
    "optim/test_audits.py::test_stochastic_frank_wolfe",
    "optim/test_frank_wolfe.py::test_audit",
    "optim/test_gradient.py::test_audit_refutes_noise_that_is_cut_to_70_percent",
    "optim/test_sparse_frank_wolfe.py::test_audit",
    "privacy/test_risk.py::test_dp_sgd[target3",
    "privacy/test_risk.py::test_dp_sgd[target4",
    "reproduce/test_adversaries.py::test_a_game_against_a_convolutional_network",
    "reproduce/test_adversaries.py::test_figures_and_the_same_again_without_a_training",
    "reproduce/test_adversaries.py::test_numbers_are_those_of_the_figures",
    "runs/test_clusters.py::test_connection_that_is_cut_and_comes_back",
    "runs/test_clusters.py::test_scheduler_that_dies_and_comes_back",
    "runs/test_engines.py::test_one_death_condemns_nobody[loky",
    "runs/test_engines.py::test_secure_trials_are_never_drawn_twice[dask",
    "runs/test_engines.py::test_secure_trials_are_never_drawn_twice[loky",
    "runs/test_engines.py::test_trial_that_kills_its_worker_is_given_up_and_no_other[dask",
    "runs/test_engines.py::test_trial_that_kills_its_worker_is_given_up_and_no_other[loky",
    "runs/test_engines.py::test_trial_that_kills_its_worker_is_given_up_and_no_other[shards",
    "runs/test_engines.py::test_width_follows_and_stopped_workers_are_done_without",
    "synth/test_audits.py::test_mixtures",
    "synth/test_dual_frank_wolfe.py::test_errors_on_a_tiny_universe",
    "synth/test_dual_query.py::test_errors_on_a_tiny_universe",
    "synth/test_fem.py::test_errors_on_a_tiny_universe",
    "synth/test_mwem.py::test_errors_on_a_tiny_universe",
    "synth/test_theorems.py::test_measured_errors_are_below",
    "test_examples.py::test_example[jax_training.py",
    "test_examples.py::test_example[opacus_mnist.py",
    "test_examples.py::test_example[white_box_torch.py",
)


def is_wide(nodeid):
    """Whether a test, by its id from the root of the repository, is left out but by ``--wide``."""
    name = nodeid.removeprefix("tests/")
    function = name.partition("[")[0]
    return any(function == wide or ("[" in wide and name.startswith(wide)) for wide in WIDE)


def is_slow(path, tests):
    """Whether a test file belongs to the slow ones; doctests count by the part they stand in."""
    path = Path(path)
    try:
        name = path.relative_to(tests)
    except ValueError:
        parts = path.parts[path.parts.index("src") + 2 :] if "src" in path.parts else ()
        return bool(parts) and parts[0] in SLOW
    stem = str(name.with_suffix(""))
    return any(stem == slow or stem.startswith(slow + "/") for slow in SLOW)
