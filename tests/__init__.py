import actors.runtime  # noqa: F401  (sets variables that Ray reads when it is imported, so before any test imports Ray)
