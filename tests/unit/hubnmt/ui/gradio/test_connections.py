from hubnmt.ui.gradio.connections import Listeners
from hubnmt.ui.services.scheduler import Scheduler


def test_a_newer_call_of_a_session_ends_its_older_one():
    listeners = Listeners(Scheduler())
    first, second, other = (
        listeners.client("10.0.0.1", session, event)
        for session, event in (("a", "1"), ("a", "2"), ("b", "3"))
    )
    listeners.replace("a", "1")
    listeners.replace("b", "3")
    assert not first.has_left()
    listeners.replace("a", "2")
    assert first.has_left()
    assert not second.has_left()
    assert not other.has_left()
