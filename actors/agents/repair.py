"""Asks for a reply in a form, and once more for the fields that could not be read."""

from collections.abc import Awaitable, Callable

from actors.messages import Request
from actors.models import CountedCompletion
from actors.prompting.form import Form
from actors.prompting.prompt import repair_request
from actors.prompting.reply import Reading, read_completion

ChangeRequest = Callable[[Request], Request]


async def ask_in_form(
    form: Form, ask: Callable[[ChangeRequest], Awaitable[CountedCompletion]]
) -> tuple[list[CountedCompletion], Reading | None]:
    """Returns the completions (two where the first one needed a repair) and what was read of them.

    ask: completes the caller's request after the given change. The reading is None where a completion is no reply.
    """
    completions = [await ask(lambda request: request)]
    reply = completions[0].completion
    reading = read_completion(form, reply)
    # A repair is for the form alone: a call that failed has had its retries.
    if reading is not None and reading.faults:
        faults = reading.faults
        completions.append(await ask(lambda request: repair_request(request, reply.text, form, faults)))
        reading = reading.repaired_by(form, completions[1].completion)
    return completions, reading
