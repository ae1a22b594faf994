"""Every error a user can meet is one family, so one `except` shows them all."""

import inspect

import pytest

from hubnmt import errors

CHILDREN = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("error", CHILDREN)
def test_every_error_is_caught_as_one_family(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)  # for callers who do not know us
    with pytest.raises(errors.HubNMTError, match="what is wrong; what to do"):
        raise error("what is wrong; what to do")


def test_of_many_problems_the_first_five_are_listed() -> None:
    names = [f"p{number}" for number in range(2000)]
    assert errors.first_few(names[:1]) == "p0"
    assert errors.first_few(names[:5], ", ") == "p0, p1, p2, p3, p4"
    assert errors.first_few(names) == "p0; p1; p2; p3; p4; and 1,995 more"
