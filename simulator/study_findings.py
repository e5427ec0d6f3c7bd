"""What a study found, as numbers: a row for each variant, and which findings hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from simulator.parts import BYTE_KINDS
from simulator.results import Results
from simulator.study import Run, Study, Variant
from simulator.study_checks import Finding, Measure, judge, value_of


def findings(study: Study, runs: list[Run]) -> pd.DataFrame:
    """A row for each variant: means over the seeds that reached the target, and how many did.

    After it a row for each of its gateways whose own models were scored.
    """
    rows, chosen = [], set(tuned_variants(study, runs).values())
    for variant in told_variants(study, runs):
        its_runs = [run for run in runs if run.variant == variant.name]
        results, target = [run.results for run in its_runs], its_runs[0].target
        milestones = [] if target is None else [result.milestone(target) for result in results]
        reached = [m for m in milestones if m]
        seconds = [m.sim_time_s for m in reached]
        best = [_best(result) for result in results]
        rows.append(
            {
                "variant": variant.name,
                "reference": variant.reference or study.reference,
                "target": np.nan if target is None else target,
                "reached": None if target is None else f"{len(reached)}/{len(results)}",
                "seconds": np.mean(seconds) if seconds else np.nan,
                "spread": np.std(seconds, ddof=1) if len(seconds) > 1 else np.nan,
                "epochs": np.mean([m.epoch for m in reached]) if reached else np.nan,
                "bytes": np.mean([m.total_bytes for m in reached]) if reached else np.nan,
                "overhead": np.mean([_overhead(result) for result in results]),
                "best": np.mean(best),
                "best_spread": np.std(best, ddof=1) if len(best) > 1 else np.nan,
                "final": np.mean([_final(result) for result in results]),
                "rounds": np.mean([result.summary["epochs"] for result in results]),
                "chosen": variant.name in chosen,
                "longest": max(result.summary["sim_time_s"] for result in results),
                "sent": np.mean([_sent(result) for result in results]),
                "published": variant.published or study.published.get(variant.name),
                "published_bytes": variant.published_bytes
                or study.published_bytes.get(variant.name),
                "published_best": variant.published_best or _published_best(study, variant.name),
            }
        )
        rows += [_gateway_row(rows[-1], node, results) for node in results[0].scored_gateways]
    table = pd.DataFrame(rows)
    for ratio, of in (("ratio", "seconds"), ("bytes_ratio", "bytes")):
        table[ratio] = table[of] / table["reference"].map(table.set_index("variant")[of])
    return table


def _published_best(study: Study, name: str) -> float | None:
    """Of the longest name that the variant's begins with."""
    known = [n for n in study.published_best if name == n or name.startswith(f"{n}, ")]
    return study.published_best[max(known, key=len)] if known else None


def _gateway_row(row: dict[str, Any], node: str, results: list[Results]) -> dict[str, Any]:
    best = [value_of(Measure(variant="", of="best", node=node), result) for result in results]
    final = [value_of(Measure(variant="", node=node), result) for result in results]
    return row | {
        "variant": f"{row['variant']}, {node}", "best": np.mean(best), "final": np.mean(final),
        "best_spread": np.std(best, ddof=1) if len(best) > 1 else np.nan, "published_best": None,
    }  # fmt: skip


def told_variants(study: Study, runs: list[Run]) -> list[Variant]:
    told = {run.variant for run in runs}
    return [variant for variant in study.variants if variant.name in told]


def tuned_variants(study: Study, runs: list[Run]) -> dict[str, str]:
    """By name without the tuned key: the variant whose value of it is the best."""
    told = {variant.name for variant in told_variants(study, runs)}
    stems = {stem: [name for name in names if name in told] for stem, names in study.stems.items()}
    return {stem: _best_of(names, runs) for stem, names in stems.items() if names}


def _best_of(names: list[str], runs: list[Run]) -> str:
    """By final scores; of runs that stop at their target, who gets there, and how soon."""
    if len(names) == 1:
        return names[0]

    def merit(name: str) -> tuple[float, float]:
        its_runs = [run for run in runs if run.variant == name]
        seconds = [_seconds_to_target(run) for run in its_runs if run.scenario.run.stop_at_target]
        if reached := [time for time in seconds if time is not None]:
            return len(reached), -float(np.mean(reached))
        results = [run.results for run in its_runs]
        mean = float(np.mean([_end(result) for result in results]))
        return 0, -np.inf if np.isnan(mean) else -mean if results[0].is_regression else mean

    return max(names, key=merit)


def _seconds_to_target(run: Run) -> float | None:
    milestone = None if run.target is None else run.results.milestone(run.target)
    return milestone.sim_time_s if milestone else None


def checked(study: Study, runs: list[Run]) -> list[Finding]:
    chosen = tuned_variants(study, runs)

    def results_of(stem: str) -> dict[int, Results]:
        name = chosen.get(stem)
        return {run.seed: run.results for run in runs if run.variant == name}

    return judge(study.checks, results_of)


def _sent(result: Results) -> int:
    return sum(int(result.summary[f"bytes_{kind}"]) for kind in BYTE_KINDS)


def _overhead(result: Results) -> float:
    """Share of all bytes that are no models."""
    total = _sent(result)
    return float(result.summary["bytes_overhead"] / total) if total else 0.0


def _best(result: Results) -> float:
    return _score(result, "best")


def _final(result: Results) -> float:
    return _score(result, "final")


def _end(result: Results) -> float:
    """The final score; of a run without a global round, the mean of gateways' own, if scored."""
    if result.summary["epochs"] or not result.scored_gateways:
        return _final(result)
    own = [value_of(Measure(variant="", node=node), result) for node in result.scored_gateways]
    return float(np.mean(own))


def _score(result: Results, which: str) -> float:
    score = result.summary[f"{which}_{'loss' if result.is_regression else 'accuracy'}"]
    return float("nan") if score is None else float(score)
