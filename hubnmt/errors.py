"""Exceptions shown to users.

Each message is one line that names the problem and the remedy, so that the command line and the app
can show it unchanged.
"""


class HubNMTError(ValueError):
    """Base class of errors that the user can fix.

    Example:
        >>> from hubnmt import HubNMTError
        >>> try:
        ...     translator.translate("Ja.", beam_sise=3)
        ... except HubNMTError as error:
        ...     print(error)
        decoding options: unknown key 'beam_sise' (did you mean 'beam_size'?)
    """


class ConfigError(HubNMTError):
    """A setting is unknown, has the wrong type or is out of range."""


class ModelFolderError(HubNMTError):
    """A model folder lacks a file, or contains a damaged, unknown or inconsistent one."""


class ModelNotFoundError(HubNMTError):
    """No bundled model, local folder or Hub repository has this name."""


class InputError(HubNMTError):
    """The input text or file cannot be used."""


class HubError(HubNMTError):
    """The Hub is unreachable or rejected the request."""


class HubUnreachableError(HubError):
    """The Hub did not answer or had a server error; cached files may still be usable."""


N_NAMED = 5
"""Maximum number of problems of one kind that an error lists."""


def first_few(problems: list[str], between: str = "; ") -> str:
    """Join the first `N_NAMED` problems and state how many more there are."""
    n_more = len(problems) - N_NAMED
    return between.join([*problems[:N_NAMED], *([f"and {n_more:,} more"] if n_more > 0 else [])])


def shorten(error: object) -> str:
    """Return the message of another library's exception on one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
