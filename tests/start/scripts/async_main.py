# expect: nothing
import asyncio

from torch.utils.data import DataLoader

from my_project.data import Shards


async def consume(queue):
    while (batch := await queue.get()) is not None:
        print(batch.shape)


async def main():
    queue = asyncio.Queue(8)
    task = asyncio.create_task(consume(queue))
    for batch in DataLoader(Shards("s3://bucket"), batch_size=16, num_workers=2):
        await queue.put(batch)
    await queue.put(None)
    await task


if __name__ == "__main__":
    asyncio.run(main())
