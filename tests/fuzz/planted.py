"""What no run that is resumed or replayed may import: received folders name it in its settings."""


def thing(*args: object, **kwargs: object) -> None:
    """Stands for code of somebody else's."""
