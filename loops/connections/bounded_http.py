"""An HTTP client for answers of unknown size: no more of one is read than is allowed, and none is unpacked."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import httpx2

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 300.0  # what listens for messages hears nothing for long


class _Cut(httpx2.AsyncByteStream):
    """A body that ends with an error where it is too long."""

    def __init__(self, body: httpx2.AsyncByteStream, most: int) -> None:
        self._body = body
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            self._left -= len(piece)
            if self._left < 0:
                raise httpx2.ReadError("the answer is larger than is allowed")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class _Bounded(httpx2.AsyncHTTPTransport):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the answer is packed, which nobody asked for", request=request)
        body = response.stream
        if isinstance(body, httpx2.AsyncByteStream):
            response.stream = _Cut(body, self._most)
        return response


def bounded_client(headers: Mapping[str, str], most: int) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    """A client that sends these headers with each request, and reads `most` bytes of an answer at most."""
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS),
        transport=_Bounded(most),
        follow_redirects=False,
    )
