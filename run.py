"""Run an experiment: `python run.py experiment=mmqa_prune seed=1`. Without arguments it lists the experiments."""

from experiments.command_line import main, script

__all__ = ["main"]

if __name__ == "__main__":
    script()
