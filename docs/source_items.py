"""Every item of the five source documents, and where it is; run, it writes the page.

A row: the item, where it is implemented (a dotted name, or a command), a test, and its state. The
states: "as stated", "corrected" (see the page of corrections), "reproduced" (an experiment with
claims that are judged), "definition" (a notion that the code uses), and "not run" for what is built
and has not been run at its full size.
"""

from pathlib import Path

STATES = ("as stated", "corrected", "reproduced", "definition", "not run")
PAGE = Path(__file__).parent / "sources.md"

Row = tuple[str, str, str, str]

HW3: list[Row] = [
    (
        "Q1.1, Q1.2 ridge minimisers",
        "dpassay_reproduce.printed.ridge",
        "tests/reproduce/test_printed.py",
        "as stated",
    ),
    (
        "Q1.3 rank-one identity, lemma 1",
        "dpassay_reproduce.printed.ridge",
        "tests/reproduce/test_printed.py",
        "corrected",
    ),
    (
        "Q1.4, Q1.5, Q1.6 sensitivity MR/λ",
        "dpassay.learn.PrivateRidge",
        "tests/learn/test_ridge.py",
        "corrected",
    ),
    ("Q1.7 ρ-zCDP", "dpassay.learn.PrivateRidge", "tests/learn/test_ridge.py", "as stated"),
    (
        "One-run algorithm, equation (1)",
        "dpassay.one_run",
        "tests/bounds/onerun/test_one_run.py",
        "corrected",
    ),
    (
        "Theorem 2, and its Hoeffding form",
        "dpassay_reproduce.printed.one_run",
        "tests/reproduce/test_printed.py",
        "as stated",
    ),
    (
        "Gaussian calibration √(2 log(1.25/δ))/σ",
        "dpassay.privacy.gaussian_noise_multiplier",
        "tests/privacy/test_gaussian.py",
        "corrected",
    ),
    ("Q2.1 ε̂ against ε", "dpassay reproduce hw3", "tests/reproduce/test_hw3.py", "reproduced"),
    ("Q2.2 ε̂ against m", "dpassay reproduce hw3", "tests/reproduce/test_hw3.py", "reproduced"),
    ("Q2.3 ε̂ against d", "dpassay reproduce hw3", "tests/reproduce/test_hw3.py", "reproduced"),
]

WANG: list[Row] = [
    (
        "Definitions 12.1, 12.2 (ε- and (ε, δ)-DP)",
        "dpassay.ApproxDP",
        "tests/privacy/test_curves.py",
        "corrected",
    ),
    (
        "Proposition 12.3 sufficient condition",
        "dpassay.privacy.loss_variables.GaussianLoss",
        "tests/privacy/test_loss_variables.py",
        "corrected",
    ),
    (
        "Theorem 12.4 exponential mechanism",
        "dpassay.mechanisms.exponential",
        "tests/mechanisms/test_selection.py",
        "as stated",
    ),
    (
        "(α, β)-accuracy",
        "dpassay.mechanisms.accuracy",
        "tests/mechanisms/test_accuracy.py",
        "as stated",
    ),
    (
        "Assumption 12.5, the BLR mechanism",
        "dpassay.synth.BLR",
        "tests/synth/test_blr.py",
        "as stated",
    ),
    ("Theorem 12.6 privacy of BLR", "dpassay.synth.BLR", "tests/synth/test_blr.py", "as stated"),
    (
        "Theorem 12.7 accuracy of BLR",
        "dpassay.synth.blr_accuracy",
        "tests/synth/test_blr.py",
        "corrected",
    ),
    (
        "12.3 k = O(n) with Laplace noise, k ≫ n with BLR",
        "dpassay reproduce lecture",
        "tests/reproduce/test_lecture.py",
        "reproduced",
    ),
    (
        "12.5 a better mechanism, α ~ 1/√n",
        "dpassay reproduce lecture",
        "tests/reproduce/test_lecture.py",
        "reproduced",
    ),
]

NASR: list[Row] = [
    (
        "Kairouz' inequalities, equations (1) and (2)",
        "dpassay.lower_bound_from_counts",
        "tests/bounds/test_counts.py",
        "corrected",
    ),
    (
        "Worked examples 3.5, 3.2, 5.60, 0.31",
        "dpassay_reproduce.stated",
        "tests/reproduce/test_stated.py",
        "corrected",
    ),
    (
        "1 API access",
        "dpassay.adversaries.ADVERSARIES",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "2 static input poisoning",
        "dpassay.adversaries.ADVERSARIES",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "3 intermediate poison attack",
        "dpassay.adversaries.ADVERSARIES",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "4 adaptive poisoning attack",
        "dpassay.adversaries.ADVERSARIES",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "5 gradient attack",
        "dpassay.adversaries.ADVERSARIES",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "6 malicious data sets",
        "dpassay.adversaries.ADVERSARIES",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "Density of the gradient attack",
        "dpassay.attacks.trajectories.LikelihoodRatio",
        "tests/reproduce/test_corrections.py",
        "corrected",
    ),
    (
        "3.6 at ε = 4 from 1000 trials",
        "dpassay_reproduce.stated.claim_malicious",
        "tests/reproduce/test_stated.py",
        "reproduced",
    ),
    (
        "Leakage grows with the complexity of the task",
        "dpassay_reproduce.adversaries.tasks_picture",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "Which further assumptions are fruitful",
        "dpassay reproduce adversaries",
        "tests/reproduce/test_adversaries.py",
        "reproduced",
    ),
    (
        "1000 trainings of each world (--full); a CNN (--cnn)",
        "dpassay reproduce adversaries",
        "tests/reproduce/test_adversaries.py",
        "not run",
    ),
    (
        "Theoretical justification in one dimension",
        "dpassay reproduce one-dimension",
        "tests/reproduce/test_one_dimension.py",
        "reproduced",
    ),
]

SLIDES: list[Row] = [
    (
        "Privacy loss variable, (ε, δ) iff its tail",
        "dpassay.privacy.loss_variables.GaussianLoss",
        "tests/privacy/test_loss_variables.py",
        "corrected",
    ),
    (
        "Advanced composition",
        "dpassay.privacy.composition.advanced",
        "tests/privacy/test_composition.py",
        "corrected",
    ),
    (
        "Subsampling amplification",
        "dpassay.privacy.composition.amplify",
        "tests/privacy/test_composition.py",
        "as stated",
    ),
    (
        "L1 and L2 clipping, full batches and q = 1/n",
        "dpassay reproduce clipping",
        "tests/reproduce/test_clipping.py",
        "reproduced",
    ),
    (
        "Poisson batches and |B|",
        "dpassay.mechanisms.mean_sensitivity",
        "tests/mechanisms/test_sensitivity.py",
        "corrected",
    ),
    (
        "KL of Laplace and Gaussian noise",
        "dpassay.privacy.loss_variables.LaplaceLoss",
        "tests/privacy/test_loss_variables.py",
        "corrected",
    ),
    (
        "f-DP, propositions 2.5 and 2.12",
        "dpassay.privacy.tradeoff.Tradeoff",
        "tests/privacy/test_tradeoff.py",
        "corrected",
    ),
    (
        "Gaussian DP, mechanism and composition",
        "dpassay.GDP",
        "tests/privacy/test_curves.py",
        "as stated",
    ),
    (
        "Theorem 3.4 central limit",
        "dpassay.privacy.composition.clt_mu",
        "tests/privacy/test_composition.py",
        "corrected",
    ),
    (
        "Theorem 4.2 subsampling",
        "dpassay.privacy.tradeoff.Tradeoff",
        "tests/privacy/test_tradeoff.py",
        "corrected",
    ),
    (
        "Corollary 5.4 subsampled composition",
        "dpassay.privacy.composition.clt_mu_uniform",
        "tests/privacy/test_composition.py",
        "corrected",
    ),
    ("Communicating privacy by odds", "dpassay explain", "tests/report", "as stated"),
    (
        "Figures of losses, trade-offs and composition",
        "dpassay reproduce slides",
        "tests/reproduce/test_slides.py",
        "reproduced",
    ),
    (
        "Debugging: counts of 100 000 models",
        "dpassay_reproduce.debugging.paper_bound",
        "tests/reproduce/test_debugging.py",
        "corrected",
    ),
    (
        "Debugging: canaries, threshold, trainings (digits)",
        "dpassay reproduce debugging",
        "tests/reproduce/test_backpropagation.py",
        "reproduced",
    ),
    (
        "Debugging on MNIST (--full)",
        "dpassay reproduce debugging",
        "tests/reproduce/test_backpropagation.py",
        "not run",
    ),
    (
        "Clopper-Pearson, log-Katz, Bayes",
        "dpassay.lower_bound_from_counts",
        "tests/bounds/test_counts.py",
        "as stated",
    ),
    (
        "Testing for GDP",
        "dpassay.lower_bound_from_counts",
        "tests/bounds/test_counts.py",
        "corrected",
    ),
]

_T = "tests/reproduce/test_thesis.py"
_L = "tests/reproduce/test_thesis_logistic.py"
_M = "tests/reproduce/test_thesis_multinomial.py"
_FW = "tests/synth/test_dual_frank_wolfe.py"
_THESIS = "dpassay reproduce thesis"

MICALI: list[Row] = [
    (
        "Definitions 1, 7, 8, 15 (DP)",
        "dpassay.ApproxDP",
        "tests/privacy/test_curves.py",
        "definition",
    ),
    (
        "Definitions 2, 22, 23, 24 (risks)",
        "dpassay.privacy.excess_risk",
        "tests/privacy/test_excess_risk.py",
        "definition",
    ),
    (
        "Definitions 4, 5, 6, 30, 31, 32 (queries, synthetic data)",
        "dpassay.synth.Workload",
        "tests/synth/test_workload.py",
        "definition",
    ),
    (
        "Definitions 10, 11, 12, theorem 13 (Laplace mechanism)",
        "dpassay.mechanisms.laplace",
        "tests/mechanisms/test_additive.py",
        "as stated",
    ),
    (
        "Definition 14 (privacy loss)",
        "dpassay.privacy.loss_variables.LaplaceLoss",
        "tests/privacy/test_loss_variables.py",
        "definition",
    ),
    ("Definitions 39, 41 (gaps)", "dpassay.optim.frank_wolfe.nonprivate_gap", _FW, "definition"),
    (
        "Definition 51, propositions 34, 35, 52, theorems 36, 53, 54 (convex analysis)",
        "dpassay.synth.methods.dual.Dual",
        _FW,
        "definition",
    ),
    ("Figures 1, 2 (schemes)", "dpassay.attack", "tests/attacks/test_membership.py", "definition"),
    (
        "Algorithm 1 DP-SGD, theorem 3",
        "dpassay_reproduce.printed.sgd.bst14_sgd",
        "tests/reproduce/test_printed.py",
        "corrected",
    ),
    (
        "Algorithms 2, 3 DP-Frank-Wolfe",
        "dpassay.optim.frank_wolfe.frank_wolfe",
        "tests/optim/test_frank_wolfe.py",
        "corrected",
    ),
    ("Table 1", "dpassay.privacy.excess_risk", "tests/privacy/test_excess_risk.py", "corrected"),
    (
        "1.1 randomized response",
        "dpassay.mechanisms.randomized_response",
        "tests/mechanisms/test_response.py",
        "as stated",
    ),
    (
        "Theorem 9, lemma 18 (post-processing)",
        "dpassay.types.Release",
        "tests/mechanisms/test_additive.py",
        "as stated",
    ),
    (
        "Figures 1.1, 1.2, 1.3",
        "dpassay reproduce slides",
        "tests/reproduce/test_slides.py",
        "reproduced",
    ),
    (
        "Proposition 16, theorem 17 (noisy max)",
        "dpassay.mechanisms.report_noisy_max",
        "tests/mechanisms/test_selection.py",
        "corrected",
    ),
    (
        "Theorems 19, 20 (advanced composition)",
        "dpassay.privacy.composition.advanced",
        "tests/privacy/test_composition.py",
        "as stated",
    ),
    (
        "Lemma 21 (subsampling)",
        "dpassay.privacy.composition.amplify",
        "tests/privacy/test_composition.py",
        "as stated",
    ),
    (
        "2.2 attacks by networks, black box and white box",
        "dpassay.attacks.learned.shadow_scores",
        "tests/attacks/test_whitebox.py",
        "as stated",
    ),
    (
        "2.3 metric attacks",
        "dpassay.attacks.scores.metric_scores",
        "tests/attacks/test_scores.py",
        "as stated",
    ),
    (
        "Table 3.1",
        "dpassay.privacy.excess_risk.sgd_rate",
        "tests/privacy/test_excess_risk.py",
        "as stated",
    ),
    (
        "Theorem 25, lemma 26 (privacy of DP-FW)",
        "dpassay_reproduce.printed.frank_wolfe.noise_scale",
        "tests/reproduce/test_printed.py",
        "corrected",
    ),
    (
        "Theorem 27, lemma 28 (utility of DP-FW)",
        "dpassay.privacy.excess_risk.frank_wolfe_excess_risk",
        "tests/reproduce/test_corrections.py",
        "corrected",
    ),
    (
        "Table 3.2, measured against p and N",
        "dpassay reproduce thesis --figure risk",
        "tests/reproduce/test_sharper.py",
        "reproduced",
    ),
    (
        "Lemma 29, algorithm 4 (stochastic Frank-Wolfe)",
        "dpassay.optim.stochastic_frank_wolfe.stochastic_frank_wolfe",
        "tests/optim/test_stochastic_frank_wolfe.py",
        "corrected",
    ),
    (
        "Algorithm 5 (losses)",
        "dpassay_reproduce.printed.counters.printed_sorted_half",
        "tests/reproduce/test_printed.py",
        "corrected",
    ),
    (
        "Algorithm 6 (entropies)",
        "dpassay_reproduce.printed.counters.printed_threshold",
        "tests/reproduce/test_printed.py",
        "corrected",
    ),
    *((f"Figure 4.{k}", f"{_THESIS} --figure 4.{k}", _T, "reproduced") for k in range(1, 9)),
    *((f"Figure 4.{k}", f"{_THESIS} --figure 4.{k}", _L, "reproduced") for k in range(9, 21)),
    *((f"Figure 4.{k}", f"{_THESIS} --figure 4.{k}", _M, "reproduced") for k in range(21, 26)),
    ("4.3 threshold", f"{_THESIS} --figure 4.3-band", _L, "corrected"),
    (
        "Conclusions of chapter 4: the optimal T",
        f"{_THESIS} --figure steps",
        "tests/reproduce/test_sharper.py",
        "reproduced",
    ),
    (
        "Conclusions of chapter 4: N > 10⁴",
        f"{_THESIS} --figure sparse",
        "tests/reproduce/test_sharper.py",
        "reproduced",
    ),
    ("Table 5.1", "dpassay reproduce synth", "tests/reproduce/test_synth.py", "reproduced"),
    (
        "Proposition 33 (duality), lemmas 37, 55 (entropy)",
        "dpassay.synth.methods.dual.Dual",
        "tests/reproduce/test_corrections.py",
        "corrected",
    ),
    (
        "Proposition 38 (last iterate)",
        "dpassay.synth.methods.frank_wolfe.last_iterate",
        "tests/reproduce/test_corrections.py",
        "corrected",
    ),
    (
        "5.4 α*, lemmas 40, 56",
        "dpassay_reproduce.printed.rates.section_5_4_entropy",
        "tests/reproduce/test_dual.py",
        "corrected",
    ),
    (
        "Algorithm 7, theorem 42",
        "dpassay_reproduce.printed.dual_frank_wolfe.run_algorithm_7",
        "tests/reproduce/test_dual.py",
        "reproduced",
    ),
    (
        "Lemma 43 (α*)",
        "dpassay_reproduce.printed.rates.balanced_entropy",
        "tests/reproduce/test_corrections.py",
        "corrected",
    ),
    (
        "Corollary 44",
        "dpassay.synth.query_error_upper",
        "tests/synth/test_theorems.py",
        "corrected",
    ),
    (
        "Lemma 45, corollary 46 (population)",
        "dpassay_reproduce.printed.rates.stochastic_population_rate",
        "tests/reproduce/test_dual.py",
        "reproduced",
    ),
    (
        "Theorem 47, corollary 48 (population, full batches)",
        "dpassay.synth.population_error_upper",
        "tests/reproduce/test_dual.py",
        "reproduced",
    ),
    (
        "Lemma 49 (recursion)",
        "dpassay.privacy.excess_risk.step_decay",
        "tests/reproduce/test_corrections.py",
        "as stated",
    ),
    (
        "Lemma 50 (gradient of the multinomial loss)",
        "dpassay.optim.losses.Multinomial",
        "tests/optim/test_losses.py",
        "as stated",
    ),
]

DOCUMENTS = {
    "HW3": HW3,
    "Wang 2021": WANG,
    "Nasr notes": NASR,
    "CSCI 699": SLIDES,
    "Micali 2022": MICALI,
}

INTRODUCTION = """# The source documents, item by item

Every definition, algorithm, theorem, experiment, figure, table and exercise of the
[five source documents](references.md): where it is in dpassay, the test that covers it, and its
state. *As stated*: implemented as the document has it. *Corrected*: it is wrong or loose there;
[Corrections](corrections.md) say how. *Reproduced*: an experiment of `dpassay reproduce`, with
claims that are judged. *Definition*: a notion that the code uses. *Not run*: built, tested in a
small form, and never run at its full size. Written by `python docs/source_items.py`.
"""


def write_page() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for document, rows in DOCUMENTS.items():
        parts.append(f"## {document}\n\n| item | where | test | state |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n| {a} | `{b}` | `{c}` | {d} |" for a, b, c, d in rows) + "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
