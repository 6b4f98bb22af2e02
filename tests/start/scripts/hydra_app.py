# expect: nothing
import hydra
import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    print(OmegaConf.to_yaml(cfg))
    dataset = hydra.utils.instantiate(cfg.dataset)
    loader = DataLoader(dataset, batch_size=cfg.batch_size, num_workers=cfg.num_workers)
    model = hydra.utils.instantiate(cfg.model)
    for epoch in range(cfg.epochs):
        for batch in loader:
            model.step(batch)


if __name__ == "__main__":
    main()
