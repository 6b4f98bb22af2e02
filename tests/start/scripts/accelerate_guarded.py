# expect: nothing
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_scheduler

MAX_GPU_BATCH_SIZE = 16


def get_dataloaders(accelerator, batch_size=16):
    tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
    data = load_dataset("glue", "mrpc")

    def tokenize_function(examples):
        return tokenizer(examples["sentence1"], examples["sentence2"], truncation=True, padding="max_length")

    with accelerator.main_process_first():
        tokenized = data.map(tokenize_function, batched=True)
    train = DataLoader(tokenized["train"], shuffle=True, batch_size=batch_size, num_workers=2)
    evaluation = DataLoader(tokenized["validation"], batch_size=32, num_workers=2)
    return train, evaluation


def training_function(config, args):
    accelerator = Accelerator(cpu=args.cpu)
    train, evaluation = get_dataloaders(accelerator, config["batch_size"])
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    model, optimizer, train, evaluation = accelerator.prepare(model, optimizer, train, evaluation)
    scheduler = get_scheduler("linear", optimizer, 100, len(train) * config["epochs"])
    for epoch in range(config["epochs"]):
        model.train()
        for step, batch in enumerate(train):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        for batch in evaluation:
            with torch.no_grad():
                model(**batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    training_function({"lr": 2e-5, "epochs": 3, "batch_size": 16}, args)


if __name__ == "__main__":
    main()
