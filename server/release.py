"""Which release of Loops this is."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str | None:
    """Its number, as 0.1.0; None for a source tree that is not installed."""
    try:
        return version("loops")
    except PackageNotFoundError:
        return None
