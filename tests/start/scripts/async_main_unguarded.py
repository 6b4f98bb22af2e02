# expect: check.unguarded-iteration:15
import asyncio

from torch.utils.data import DataLoader

from my_project.data import Shards


async def main():
    queue = asyncio.Queue()
    for batch in DataLoader(Shards("s3://bucket"), batch_size=16, num_workers=2):
        await queue.put(batch)


asyncio.run(main())
