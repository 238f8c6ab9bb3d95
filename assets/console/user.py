"""Who acts: the user of this machine, by name where there is one; a container may have none."""

import os
import pwd


def user_name() -> str:
    """Return who types, to be stored with what was decided or signed.

    It is the user of this process: no variable of the environment can make it another one.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
