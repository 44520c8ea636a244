"""Run an experiment: `python run.py experiment=mmqa_prune seed=1`. Without arguments, it prints the first page of help."""

from agora_mm import main, script

__all__ = ["main"]

if __name__ == "__main__":
    script()
