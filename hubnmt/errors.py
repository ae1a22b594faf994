"""The errors a user can meet.

Takes nothing, gives exception types, and shortens what they list. Each message is one line that
names what is wrong and what to do about it, so the command line and the app can show it as it is.
Must not know anything else.
"""


class HubNMTError(ValueError):
    """A request that cannot be met as asked: the message names the problem and the remedy."""


class ConfigError(HubNMTError):
    """A setting is unknown, of the wrong type, or outside its range."""


class ModelFolderError(HubNMTError):
    """A model folder is missing a file, or a file in it is torn, foreign or inconsistent."""


class ModelNotFoundError(HubNMTError):
    """No bundled model, local folder or Hub repository answers to this name."""


class InputError(HubNMTError):
    """The text or file to work on cannot be used."""


class HubError(HubNMTError):
    """The Hub could not be reached, or refused."""


class HubUnreachableError(HubError):
    """The Hub gave no answer, or has trouble itself: what is in the cache may still serve."""


N_NAMED = 5
"""Problems of a kind that an error names; a stranger's file may have thousands."""


def first_few(problems: list[str], between: str = "; ") -> str:
    """List the first `N_NAMED`, and say how many more there are."""
    n_more = len(problems) - N_NAMED
    return between.join([*problems[:N_NAMED], *([f"and {n_more:,} more"] if n_more > 0 else [])])


def shorten(error: BaseException) -> str:
    """Return what an exception of another library says, on one line and not too long."""
    return " ".join(str(error).split())[:200] or type(error).__name__
