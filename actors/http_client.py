"""Sends HTTP requests to services that may be slow, broken or hostile."""

import asyncio
import email.utils
import logging
import math
import os
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import httpx2

CONNECT_S = 10.0
# More than any reply with its likelihoods: a body without end must not fill the memory.
BODY_BYTES = 32_000_000
# Variables of the environment that every connection heeds; the values may hold passwords.
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class NoResponse(Exception):
    """No usable response, for the reason in the text. `unreachable`: no connection was made."""

    def __init__(self, reason: str, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.unreachable = unreachable


def open_client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Opens a client for one service. Raises NoResponse, which names the variables, where the environment's proxies or
    certificates cannot be used."""
    for name in ("httpx2", "httpcore2"):
        # They log reason phrases and headers, in which a service may repeat the key.
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return httpx2.AsyncClient(
            # Uncompressed: a few bytes of a compressed body can become any number.
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity", **headers},
            # `fetch` bounds the whole exchange; a read timeout would let a service send slowly for ever.
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            # Callers bound the requests in flight. No connection is reused: a reply that a proxy sends twice would be
            # taken for the next request's.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        cause = _named(CERTIFICATES if isinstance(error, OSError) else PROXIES)
        raise NoResponse(f"no connection can be made: {error}{cause}", True) from error


async def fetch(
    client: httpx2.AsyncClient, method: str, url: str, body: bytes | None = None, timeout_s: float = CONNECT_S
) -> tuple[int, httpx2.Headers, bytes]:
    """Returns a response's status, headers and whole body. Raises NoResponse where none came within `timeout_s`
    seconds, or one that is compressed or longer than any."""
    try:
        async with asyncio.timeout(timeout_s), client.stream(method, url, content=body) as response:
            encoding = response.headers.get("content-encoding", "identity")
            if encoding != "identity":
                raise NoResponse(f"the reply is compressed ({encoding[:40]}), although it was requested uncompressed")
            content = bytearray()
            async for part in response.aiter_raw():
                content += part
                if len(content) > BODY_BYTES:
                    raise NoResponse(f"the reply has more than {BODY_BYTES:,} bytes and was cut off")
            return response.status_code, response.headers, bytes(content)
    except TimeoutError as error:
        raise NoResponse(f"no reply within {timeout_s:g} s") from error
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        is_unreachable = isinstance(error, httpx2.ConnectError | httpx2.ProxyError)
        cause = _possible_cause(url) if is_unreachable else ""
        raise NoResponse(f"{type(error).__name__}: {str(error) or 'no details'}{cause}", is_unreachable) from error


def _possible_cause(url: str) -> str:
    """Names the environment's variables that may be why an address cannot be reached."""
    address = urlsplit(url)
    variables: list[str] = []
    if not proxy_bypass(address.hostname or ""):
        variables += [f"{address.scheme}_PROXY".upper(), "ALL_PROXY"]
    if address.scheme == "https":
        variables += CERTIFICATES
    return _named(variables)


def _named(variables: Sequence[str]) -> str:
    """Names those of the environment's variables that are set, with the remedy."""
    names = [name for name in variables if os.environ.get(name) or os.environ.get(name.lower())]
    if not names:
        return ""
    bypass = ", or list the host in NO_PROXY" if set(names) & set(PROXIES) else ""
    return f"; the environment sets {' and '.join(names)}: correct or unset it{bypass}"


def requested_pause_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Returns the seconds until Retry-After, in seconds, milliseconds or a date (by the reply's clock). None without
    it."""

    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            pause_s = float(value) * unit_s
        except ValueError:
            end_s = _seconds_of(value)
            if end_s is None:
                continue
            sent_s = _seconds_of(headers.get("date", ""))
            pause_s = end_s - (now_s if sent_s is None else sent_s)
        if not math.isnan(pause_s):
            return max(0.0, pause_s)
    return None


def _seconds_of(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
