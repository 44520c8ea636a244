"""Fidelity: the papers' systems here, held step by step against what their authors published."""
