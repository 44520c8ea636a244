"""Words of command lines, for tests that change some of a common list."""


def joined(*words: str) -> list[str]:
    """Returns `key=value` words, of those with one key the last: a command line takes each key once."""
    by_key = {word.partition("=")[0]: word for word in words}
    return list(by_key.values())
