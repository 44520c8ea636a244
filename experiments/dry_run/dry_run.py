"""`dry_run=true`: prints the turns, calls, tokens and price of a run before it starts."""

from actors.errors import UserError
from experiments.dry_run.counting import count_run
from experiments.dry_run.counts import RunCounts
from experiments.dry_run.counts_table import counts_table
from experiments.planning.plan import Plan


def dry_run(plan: Plan) -> RunCounts:
    """Counts and prints. Starts no process and makes no run folder. Raises UserError for a job that is not counted."""
    if not plan.job.is_counted:
        raise UserError(f"job={plan.job.name} is not counted: dry_run=true counts what job=prune asks")
    counts = count_run(plan)
    counts_table(counts).print()
    if plan.config.explain.answers:
        print(f"not counted: turns asked again for up to {plan.config.explain.answers:,} explained answers")
    return counts
