"""Run an experiment: `python run.py experiment=two_attackers seed=1`. Without arguments, it prints where to begin."""

from agora_mm import main, script

__all__ = ["main"]

if __name__ == "__main__":
    script()
