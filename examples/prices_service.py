"""How does a web service pass prices on, if one subscriber is slow and no price may be lost?

A feed writes each price to a broadcast partition: the archive keeps all, the service the latest of
each share. Subscribers ask for what has changed, so a slow one delays neither others nor the feed.

Shows: flinknet as embedded transport: NetworkEnvironment, writer, readers, a broadcast partition.
Run: python examples/prices_service.py
"""

from __future__ import annotations

import asyncio

from aiohttp import ClientSession, web

from flinknet import BroadcastPartitioner, NetworkEnvironment

# Shares and cents; the last one tells subscribers that no price follows.
PRICES = [*((f"share-{n % 100}", 1000 + n * n % 977) for n in range(50_000)), ("closed", 0)]
latest: dict[str, int] = {}
changed = asyncio.Condition()


async def follow(environment: NetworkEnvironment, address: str) -> None:
    async with environment.open_reader(address, "prices", subpartition=0) as reader:
        async for prices in reader.batches():
            async with changed:
                latest.update(prices)
                changed.notify_all()


async def subscribe(request: web.Request) -> web.WebSocketResponse:
    socket, seen = web.WebSocketResponse(), dict[str, int]()
    await socket.prepare(request)
    async for _ in socket:
        async with changed:
            await changed.wait_for(lambda: seen != latest)
        seen.update(news := dict(latest.items() - seen.items()))
        await socket.send_json(news)
    return socket


async def archive(environment: NetworkEnvironment, address: str) -> list[tuple[str, int]]:
    async with environment.open_reader(address, "prices", subpartition=1) as reader:
        return [price async for price in reader]


async def listen(url: str, may_ask_again: asyncio.Event) -> str:
    messages, prices = 0, dict[str, int]()
    async with ClientSession() as session, session.ws_connect(url) as socket:
        while "closed" not in prices:
            await socket.send_str("next")
            messages, prices = messages + 1, prices | await socket.receive_json()
            await may_ask_again.wait()
    return f"{'up to date' if prices == dict(PRICES) else 'behind'} after {messages} messages"


async def main() -> None:
    now, later = asyncio.Event(), asyncio.Event()
    now.set()
    runner = web.AppRunner(web.Application())
    runner.app.router.add_get("/prices", subscribe)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://127.0.0.1:{1}/prices".format(*runner.addresses[0])
    async with NetworkEnvironment() as there, NetworkEnvironment() as here:
        archived = asyncio.create_task(archive(here, there.address))
        rest = asyncio.gather(follow(here, there.address), listen(url, now), listen(url, later))
        to_all = BroadcastPartitioner()
        async with there.open_writer("prices", subpartitions=2, partitioner=to_all) as writer:
            await writer.emit_many(PRICES)
        later.set()
        _, quick, slow = await rest
        print("archive:", "complete" if await archived == PRICES else "incomplete")
        print(f"quick subscriber: {quick}\nslow subscriber: {slow}")
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
