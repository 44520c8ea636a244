"""What is said of an error in one line."""

import pytest
from ray.exceptions import RayActorError, RayTaskError

from actors.errors import AgentLost, UserError
from actors.runtime.remote import one_line, reason

ELSEWHERE = RayTaskError("take", "Traceback ...\nKeyError: 'x'", KeyError("x"), proctitle="ray::take", pid=1, ip="::1")
DIED = "The actor died.\n\tclass_name: Learner\n\tpid: 7\nIt is dead: end of file. Some common causes include: (1) ..."


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("seed=x: expected\na number"), r"seed=x: expected\na number"),
        (AgentLost("critic: it died"), "critic: it died"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (MemoryError(), "MemoryError"),
        (ExceptionGroup("of tasks", [ExceptionGroup("nested", [KeyError("x")]), ValueError()]), "KeyError: 'x'"),
        (ExceptionGroup("of tasks", [KeyError("x"), UserError("too few")]), "too few"),
        (RayActorError(error_msg=DIED), "RayActorError: Learner: It is dead: end of file."),
        (ELSEWHERE, "KeyError: 'x'"),
        (ELSEWHERE.as_instanceof_cause(), "KeyError: 'x'"),
    ],
)
def test_a_reason_is_one_line_and_names_what_was_not_raised_on_purpose(error: Exception, line: str) -> None:
    assert reason(error) == line


def test_a_text_that_says_enough_goes_without_its_type() -> None:
    assert one_line(ValueError("no such weights")) == "no such weights"
    assert one_line(KeyError("x")) == "KeyError: 'x'"
