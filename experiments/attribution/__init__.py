"""Attribution: the turns and edges that decided how a recorded discussion ended."""
