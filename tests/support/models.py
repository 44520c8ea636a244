"""Models that say what a test tells them to."""

from actors.messages import Completion, Request


class Scripted:
    """Replies one after another, the last one again and again; an exception is raised."""

    def __init__(self, *replies: str | Completion | Exception) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Completion):
            return reply
        return Completion(request.id, reply, prompt_tokens=10, completion_tokens=3, cached_tokens=8)
