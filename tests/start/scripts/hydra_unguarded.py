# expect: check.unguarded-iteration:23
import hydra
from omegaconf import DictConfig
from torch.utils.data import DataLoader


def build(cfg):
    return {
        split: DataLoader(hydra.utils.instantiate(cfg.data[split]), batch_size=cfg.batch_size, num_workers=cfg.workers)
        for split in ("train", "val")
    }


@hydra.main(config_path="conf", config_name="config")
def main(cfg: DictConfig):
    loaders = build(cfg)
    model = hydra.utils.instantiate(cfg.model)
    for epoch in range(cfg.epochs):
        for batch in loaders["train"]:
            model.step(batch)


main()
