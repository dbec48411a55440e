"""Answers that are given while the server ends reach their callers.

gRPC closes a connection as soon as its last call is over. If the caller has not read the whole answer by then, and the
system meets anything unread of the caller's, it resets the connection, and what is still on its way is lost: the caller
sees UNAVAILABLE where the server counted an answer. So a server that ends leaves its callers time to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]
    Interceptor = grpc.aio.ServerInterceptor[Any, Any]
else:
    Interceptor = grpc.aio.ServerInterceptor

TIME_TO_READ_S = 0.2
"""How long a connection is kept after an answer, seconds."""


class LastAnswers(Interceptor):
    """Once `ending`, holds the end of each call back, so that its answer is read before its connection closes.

    On the wire a call with one answer is a call with a stream of one, which can be written before the call ends.

    Attributes:
        ending: whether the server is about to close.
    """

    def __init__(self) -> None:
        self.ending = False

    async def begin(self) -> None:
        """To be awaited before the server is told to close: lets callers read what was answered a moment ago."""
        self.ending = True
        await asyncio.sleep(TIME_TO_READ_S)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """See `grpc.aio.ServerInterceptor`."""
        handler = await continuation(handler_call_details)
        method: Any = handler.unary_unary if handler else None
        if method is None:  # unknown, or a stream
            return handler

        async def answer(request: Any, context: Context) -> None:
            await context.write(await method(request, context))
            if self.ending:
                await asyncio.sleep(TIME_TO_READ_S)

        return grpc.unary_stream_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)
