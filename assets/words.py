"""Whose words an error has: ours are one paragraph for the reader, others' are not."""

OURS = {"assets", "pipelines", "warehouse"}


def is_ours(error: BaseException) -> bool:
    """Whether an error is one of this project, so that its text may be shown as it is."""
    return type(error).__module__.partition(".")[0] in OURS
