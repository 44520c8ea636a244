"""Table of the counts of a run that has not started, with notes on what they assume."""

from collections.abc import Iterator

from experiments.analysis.result_table import ResultTable
from experiments.dry_run.counts import PhaseCounts, RunCounts
from experiments.dry_run.power_notes import power_notes, probe_note
from experiments.planning.topologies import compared_pairs
from experiments.running.calibration import WATCHING

HEADERS = ("phase", "discussions", "turns", "calls", "prompt\ntokens", "completion\ntokens")


def counts_table(counts: RunCounts) -> ResultTable:
    """Makes a row per phase, with tokens rounded to three digits."""
    phases = list(counts.phases)
    sum_row = None
    # A sum of one phase would only repeat it.
    if len(phases) > 1:
        sum_row = len(phases)
        phases.append(counts.total)
    # The judge comes below the sum, which does not include it.
    if counts.judge:
        phases.append(counts.judge)

    rows = []
    for phase in phases:
        numbers = [f"{number:,}" for number in (phase.discussions, phase.turns, phase.calls)]
        rows.append((phase.name, *numbers, short(phase.prompt), short(phase.completion)))
    return ResultTable(HEADERS, rows, tuple(_notes(counts)), total=sum_row)


def _notes(counts: RunCounts) -> Iterator[str]:
    plan = counts.plan
    config = plan.config
    total = counts.total

    yield "Turns and calls are exact; a reply that cannot be read, or a call that fails, takes one more."
    estimated = [phase.name for phase in counts.phases if not phase.exact]
    if estimated:
        yield (
            f"Except in {', '.join(estimated)}: needed turns depend on the learned graph, a system's next call on "
            "earlier replies, and a twin's samples on their length. For a learned graph these are upper bounds, as if "
            "every turn were needed and no other method had asked the same."
        )
    for method, source in plan.shared_from.items():
        except_for = " except to confirm its cut" if plan.learners[method].confirming else ""
        yield f"{method} learns from the discussions of {source} and holds none for its training{except_for}."

    max_tokens = config.agents.max_tokens
    by_role = " on average, with a measured length for each role" if counts.has_measured_replies else ""
    yield (
        f"Tokens are estimated from the real prompts of {counts.questions:,} questions in each phase, counted as "
        f"{counts.rule}. A reply is assumed to have {counts.reply_tokens:,} tokens{by_role}; at the "
        f"{max_tokens:,} that agents.max_tokens allows there would be {short(total.calls * max_tokens)} completion "
        "tokens."
    )
    for model, part in total.by_model.items():
        price = config.costs.price(part.prompt, part.completion)
        of_price = f", {price:,.2f} of the price" if price else ""
        yield (
            f"Of these, {plan.models.phrases[model]} has {part.calls:,} calls with {short(part.prompt)} prompt "
            f"and {short(part.completion)} completion tokens expected{of_price}."
        )
    if config.completions.reuse:
        yield (
            f"About {total.computed:,.0f} of the calls differ from each other, if no two different prompts get the "
            f"same reply; the completion cache answers the others ({1 - total.computed / max(1, total.calls):.0%}). "
            f"Computed calls have {computed_tokens(total)}."
        )
    yield f"The longest prompt has about {total.longest:,} tokens."

    yield from _cost_notes(counts)
    yield from power_notes(config.compare, counts.clusters, compared_pairs(plan.methods, plan.clean))
    if plan.probes:
        [probes] = [phase.discussions for phase in counts.phases if phase.name == WATCHING]
        yield probe_note(config.defence, int(probes), len(plan.roles.agents))
    for warning in counts.warnings:
        yield f"Warning: {warning}."


def _cost_notes(counts: RunCounts) -> Iterator[str]:
    costs = counts.plan.config.costs
    hours = counts.hours
    price = counts.price

    if hours and costs.states_speed:
        yield f"Hours at the given rates: {hours:,.2f} (without any cache)."
    elif hours and counts.earlier:
        usage = counts.earlier.usage
        yield (
            f"Hours as {counts.earlier.name} took, scaled by tokens: {hours:,.2f}; at its concurrency, with "
            f"{usage.reused / (usage.calls + usage.reused):.0%} of calls answered from the completion cache and "
            f"{usage.cached_tokens / usage.prompt_tokens:.0%} of prompt tokens from a prefix cache."
        )
    gpus = sum(backend.replicas * backend.gpus_each for backend in counts.plan.models.of_agents.values())
    if hours and gpus:
        gpu_hours = gpus * hours
        price_of_gpus = "" if costs.gpu_hour_price is None else f", for {costs.gpu_hour_price * gpu_hours:,.2f}"
        yield f"GPUs: {gpus:g}, for {gpu_hours:,.2f} GPU hours{price_of_gpus}."

    if price:
        total = counts.total
        cached = costs.price(total.computed_prompt - total.cached, total.computed_completion, total.cached)
        yield f"Price at the given rates: {price:,.2f} (without any cache); {cached or 0.0:,.2f} with both caches."
    if counts.judge and (hours or price):
        yield "The judge is in none of these."


def computed_tokens(counts: PhaseCounts) -> str:
    """Writes the tokens of the calls that a model answers."""
    cached = ""
    if counts.cached:
        cached = f" ({short(counts.cached)} of them from a prefix cache with room for them)"
    prompt = f"{short(counts.computed_prompt)} prompt tokens{cached}"
    return f"{prompt} and {short(counts.computed_completion)} completion tokens"


def short(tokens: float) -> str:
    """Writes a number with three digits: 812, 45.6k, 7.89M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            value = tokens / size
            decimals = max(0, 3 - len(str(int(value))))
            return f"{value:.{decimals}f}{unit}"
    return f"{tokens:.0f}"
