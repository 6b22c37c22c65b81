class Error(Exception):
    """What went wrong and what to do, in one line."""
