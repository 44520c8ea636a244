"""Asks for a reply in a form, and once more for the fields that could not be read."""

from collections.abc import Awaitable, Callable

from actors.messages import Request
from actors.models import ModelResponse
from actors.prompting.form import Form
from actors.prompting.prompt import repair_request
from actors.prompting.reply import Reading, read_completion

ChangeRequest = Callable[[Request], Request]


async def ask_in_form(
    form: Form, ask: Callable[[ChangeRequest], Awaitable[ModelResponse]]
) -> tuple[list[ModelResponse], Reading | None]:
    """Returns the responses (two where the first one needed a repair) and what was read of them.

    ask: completes the caller's request after the given change. The reading is None where a completion is no reply.
    """
    responses = [await ask(lambda request: request)]
    reply = responses[0].completion
    reading = read_completion(form, reply)
    # A repair is for the form alone: a call that failed has had its retries.
    if reading is not None and reading.faults:
        faults = reading.faults
        responses.append(await ask(lambda request: repair_request(request, reply.text, form, faults)))
        reading = reading.repaired_by(form, responses[1].completion)
    return responses, reading
