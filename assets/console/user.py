"""Who acts: the user of this machine, by name where there is one; a container may have none."""

import getpass
import os


def user_name() -> str:
    """Return who types, to be stored with what was decided or signed."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
