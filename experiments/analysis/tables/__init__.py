"""The papers' tables: their definitions, our figures and the reported ones."""
