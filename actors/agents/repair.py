"""Asks for a reply in a form, and once more for the fields that could not be read."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from actors.messages import Request, Value
from actors.models import ModelResponse
from actors.prompting.answer_value import is_unfounded, repeats
from actors.prompting.form import FieldFault, Form, quoted
from actors.prompting.prompt import grounds_and_framing, repair_request
from actors.prompting.reply import Reading, read_completion

ChangeRequest = Callable[[Request], Request]


async def ask_in_form(
    form: Form, ask: Callable[[ChangeRequest], Awaitable[tuple[Request, ModelResponse]]]
) -> tuple[list[ModelResponse], Reading | None]:
    """Returns the responses (two where the first one needed a repair) and what was read of them.

    ask: completes the caller's request after the given change, and returns both. The reading is None where a completion
    is no reply.
    """
    request, response = await ask(lambda request: request)
    reply = response.completion
    reading = founded(read_completion(form, reply), form, request)
    # A repair is for the form alone: a call that failed has had its retries.
    if reading is None or not reading.faults:
        return [response], reading

    faults = reading.faults
    _, repair = await ask(lambda request: repair_request(request, reply.text, form, faults))
    return [response, repair], founded(reading.repaired_by(form, repair.completion), form, request)


def founded(reading: Reading | None, form: Form, request: Request) -> Reading | None:
    """Returns a reading in which a free answer that has nothing to do with its request is a fault.

    An answer may name what only a picture shows.
    """
    if reading is None or form.choices or any(picture.image is not None for picture in request.images):
        return reading

    grounds, framing = grounds_and_framing(request)
    for field in form.fields:
        if field.value is not Value.ANSWER:
            continue

        answer = dict(reading.values).get(field.name, "")
        reason = ""
        if repeats(answer, framing):
            reason = "repeats words about the turn"
        elif is_unfounded(answer, grounds):
            reason = "has no word of the question or of the evidence"
        if reason:
            fault = FieldFault(field, f"{quoted(answer)} {reason}")
            values = tuple(value for value in reading.values if value != (field.name, answer))
            reading = replace(reading, values=values, faults=(*reading.faults, fault))
    return reading
