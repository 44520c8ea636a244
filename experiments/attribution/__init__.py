"""Attribution: the turns and edges without which a recorded discussion would have ended otherwise."""
