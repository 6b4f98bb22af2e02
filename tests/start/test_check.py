"""
The check of source, on whole scripts as people write them and on single statements.
"""

import re
from pathlib import Path

import pytest

from autoloader.start.check import check_source

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
ROOT = Path(__file__).parents[2]


def found(text: str) -> list[str]:
    """
    Return what is found, as ``id:line``.
    """
    return [f"{problem.id}:{problem.line}" for problem in check_source(text, "script.py")]


def expected(text: str) -> list[str]:
    """
    Return what a script's first line says that is to be found.
    """
    header = text.partition("\n")[0].removeprefix("# expect: ")
    return [] if header == "nothing" else sorted(header.split(", "), key=lambda each: int(each.rpartition(":")[2]))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_has_the_findings_that_its_first_line_says(script: Path) -> None:
    """
    Neither a false alarm nor a miss in scripts of forty kinds, half of them right.
    """
    text = script.read_text(encoding="utf-8")
    assert sorted(found(text)) == sorted(expected(text))


HEAD = "from torch.utils.data import DataLoader, Subset\nfrom data import D\n"
LOADER = f"{HEAD}loader = DataLoader(D(), num_workers=2)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("for b in loader: pass", id="for"),
        pytest.param("list(loader)", id="list"),
        pytest.param("x = [b for b in loader]", id="comprehension"),
        pytest.param("x = sum(len(b) for b in loader)", id="generator-expression"),
        pytest.param("x = {i: b for i, b in enumerate(loader)}", id="dict-comprehension"),
        pytest.param("x = next(iter(loader))", id="first-batch"),
        pytest.param("x = [*loader]", id="star"),
        pytest.param("print(*loader)", id="star-argument"),
        pytest.param("for a, b in zip(loader, loader): pass", id="zip"),
        pytest.param("import tqdm\nfor b in tqdm.tqdm(loader): pass", id="tqdm"),
        pytest.param("with tqdm(loader) as bar:\n for b in bar: pass", id="tqdm-as"),
        pytest.param("assert len(list(loader)) == 3", id="assert"),
        pytest.param("while next(iter(loader)): pass", id="while-test"),
        pytest.param("if (n := len(list(loader))): pass", id="walrus"),
        pytest.param("trainer.fit(model, train_dataloaders=loader)", id="fit"),
        pytest.param("trainer.validate(model, [loader, loader])", id="validate-several"),
        pytest.param("model = train_one_epoch(model, loader)", id="imported-loop"),
        pytest.param("class A:\n x = list(loader)", id="class-body"),
        pytest.param("def f():\n list(loader)\nf()", id="function"),
        pytest.param("def f(x):\n g(x)\ndef g(x):\n list(x)\nf(loader)", id="two-functions"),
        pytest.param("def f(*, x=None):\n list(x)\nf(x=loader)", id="keyword"),
        pytest.param("def f():\n return loader, 3\nx, n = f()\nlist(x)", id="returned"),
        pytest.param(
            "def f():\n yield loader\nimport m\nclass A:\n @property\n def p(self): return loader\nlist(A().p)",
            id="property",
        ),
        pytest.param(
            "class A:\n def __init__(self, x): self.x = x\nclass B(A):\n def go(self): list(self.x)\nB(loader).go()",
            id="base",
        ),
        pytest.param("class A:\n @classmethod\n def go(cls): list(loader)\nA.go()", id="classmethod"),
        pytest.param("class A:\n @staticmethod\n def go(x): list(x)\nA.go(loader)", id="staticmethod"),
        pytest.param("def f(x):\n for b in x: yield b\nfor b in f(loader): pass", id="generator"),
        pytest.param("from functools import partial\ndef f(x): list(x)\ng = partial(f, loader)\ng()", id="partial"),
        pytest.param("def f():\n global it\n it = loader\nf()\nlist(it)", id="global"),
        pytest.param("study.optimize(lambda t: 1)\ndef f(t): list(loader)\nstudy.optimize(f)", id="optuna"),
        pytest.param("loaders = {}\nloaders['a'] = loader\nlist(loaders['a'])", id="dict"),
        pytest.param("loaders = [loader]\nloaders += [loader]\nfor x in loaders:\n list(x)", id="list-of-loaders"),
        pytest.param("loaders = []\nloaders.append(loader)\nfor x in loaders:\n list(x)", id="appended"),
        pytest.param("class A:\n def __call__(self): list(loader)\na = A()\na()", id="callable-object"),
        pytest.param("trainer.run(loader)", id="ignite"),
        pytest.param("x = loader\nloader = None\nlist(x)", id="another-name-of-it"),
        pytest.param("for i in y:\n list(loader)\n loader = None", id="rebound-in-the-loop"),
        pytest.param("def f():\n list(loader)\nf()\nloader = DataLoader(D())", id="rebound-later"),
        pytest.param("a, *rest = loader, 1, loader\nlist(a)", id="unpacked"),
        pytest.param("list(loader if x else None)", id="conditional"),
        pytest.param("async def f():\n async with x: list(loader)\nawait_it = asyncio.run(f())", id="async"),
        pytest.param("try:\n list(loader)\nexcept Exception:\n pass", id="try"),
        pytest.param("if RANK == 0:\n list(loader)", id="rank-zero"),
        pytest.param("if __name__ != '__main__':\n pass\nelse:\n pass\nlist(loader)", id="behind-the-guard"),
        pytest.param("match x:\n case 1:\n  list(loader)", id="match"),
    ],
)
def test_iteration_on_import_is_found(text: str) -> None:
    """
    Each way to start the workers while the module is imported is one finding, at the statement that does it.
    """
    ids = [each.partition(":")[0] for each in found(LOADER + text)]
    assert ids == ["check.unguarded-iteration"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("print(len(loader), loader.dataset[0])", id="attributes"),
        pytest.param("for x in loader.dataset: pass", id="dataset"),
        pytest.param("for i in range(len(loader)): pass", id="length"),
        pytest.param("def f():\n list(loader)", id="never-called"),
        pytest.param("class A:\n def f(self): list(loader)\na = A()", id="method-never-called"),
        pytest.param("f = lambda: list(loader)", id="lambda"),
        pytest.param("def f():\n yield from loader\nit = f()", id="generator-never-started"),
        pytest.param("if __name__ == '__main__':\n list(loader)", id="guard"),
        pytest.param("__name__ == '__main__' and list(loader)", id="short-circuit"),
        pytest.param("x = list(loader) if __name__ == '__main__' else []", id="conditional"),
        pytest.param("def f():\n if __name__ != '__main__': return\n list(loader)\nf()", id="early-return"),
        pytest.param("for x in [loader, loader]: print(len(x))", id="container"),
        pytest.param("loaders = {'a': loader}\nfor k, x in loaders.items(): print(k, len(x))", id="items"),
        pytest.param("model.train()\nmodel.eval()", id="train-mode"),
        pytest.param("a, b = loader, names\nfor x in b: pass", id="other-target"),
        pytest.param("def f(x): list(x)\nf([1, 2])\nif __name__ == '__main__':\n f(loader)", id="other-argument"),
        pytest.param("def f(x):\n return f(x)\nf(loader)", id="endless-recursion"),
        pytest.param("loader = loader\nx = loader", id="itself"),
        pytest.param("loader = DataLoader(D(), num_workers=0)\nlist(loader)", id="rebound"),
        pytest.param("loader = loader.dataset\nloader = loader\nlist(loader)", id="rebound-twice"),
        pytest.param("def f(n): return DataLoader(D(), num_workers=n)\nlist(f(0))", id="zero-by-argument"),
        pytest.param("def train(loader): pass\ntrain(loader)", id="own-function-that-does-not-iterate"),
        pytest.param("a = b.c().d().map(f).map(f).map(f).map(f).map(f).map(f).map(f).map(f).map(f)" * 2, id="chain"),
    ],
)
def test_import_without_iteration_is_not_found(text: str) -> None:
    """
    What starts no worker, or not while the module is imported, is right.
    """
    assert found(LOADER + text) == []


@pytest.mark.parametrize(
    ("loader", "starts"),
    [
        pytest.param("DataLoader(D(), num_workers=1)", True, id="one"),
        pytest.param("DataLoader(D(), 8, True, None, None, 4)", True, id="by-position"),
        pytest.param("DataLoader(D(), num_workers=args.workers)", True, id="asked-for-at-run-time"),
        pytest.param("DataLoader(D(), **dict(num_workers=2))", True, id="spread"),
        pytest.param("torch.utils.data.DataLoader(D(), num_workers=2)", True, id="full-name"),
        pytest.param("Loader(D(), num_workers=2)", True, id="class-derived-from-it"),
        pytest.param("auto_loader(D())", True, id="ours-to-choose"),
        pytest.param("al.AutoLoader(D())", True, id="our-class"),
        pytest.param("auto_loader(D(), num_workers=3)", True, id="ours-with-a-number"),
        pytest.param("auto_loader([1, 2], persistent_workers=True)", True, id="ours-forced"),
        pytest.param("make(3)", True, id="made-by-a-function"),
        pytest.param("DataLoader(D())", False, id="not-given"),
        pytest.param("DataLoader(D(), num_workers=0)", False, id="zero"),
        pytest.param("DataLoader(D(), num_workers=ZERO)", False, id="name-of-zero"),
        pytest.param("DataLoader(D(), num_workers=CFG.workers)", False, id="attribute-of-zero"),
        pytest.param("DataLoader(D(), **options)", False, id="spread-that-is-not-known"),
        pytest.param("DataLoader(D(), num_workers=2, multiprocessing_context='fork')", False, id="fork"),
        pytest.param(
            "DataLoader(D(), num_workers=2, multiprocessing_context=mp.get_context('fork'))", False, id="fork-context"
        ),
        pytest.param("auto_loader(D(), num_workers=0)", False, id="ours-zero"),
        pytest.param("auto_loader([1, 2])", False, id="ours-in-memory"),
        pytest.param("auto_loader(TENSORS)", False, id="ours-tensors"),
        pytest.param("paddle.io.DataLoader(D(), num_workers=2)", False, id="not-torch"),
        pytest.param("Own(D(), num_workers=2)", False, id="class-of-the-module"),
        pytest.param("make_none()", False, id="default-of-zero"),
    ],
)
def test_loader_counts_if_it_may_start_workers_that_import(loader: str, starts: bool) -> None:
    """
    num_workers decides, and fork; unknown arguments count as not given, unknown numbers as workers.
    """
    head = (
        "import autoloader as al\nfrom autoloader import auto_loader\nfrom torch.utils.data import *\n"
        "ZERO = 0\nTENSORS = TensorDataset(x)\nclass CFG:\n workers = 0\nclass Loader(DataLoader): pass\n"
        "class Own:\n def __iter__(self): return iter([])\n"
        "def make(n): return DataLoader(D(), num_workers=n)\n"
        "def make_none(n=0): return DataLoader(D(), num_workers=n)\n"
    )
    assert bool(found(f"{head}for batch in {loader}: pass")) is starts


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        pytest.param("for epoch in range(9):\n  loader = {}\n  for b in loader: pass", 1, id="epochs"),
        pytest.param("for epoch in tqdm(range(9)):\n  for b in {}: pass", 1, id="without-a-name"),
        pytest.param("while step < 9:\n  for b in {}: step += 1", 1, id="while"),
        pytest.param("for epoch in range(9):\n  loader = {}\n  train(model, loader)", 1, id="passed-on"),
        pytest.param(
            "for epoch in range(9):\n  loader = {}\n  print(len(ds))\n  for b in loader: pass", 1, id="harmless-use"
        ),
        pytest.param("for fold in range(9):\n  loader = {}\n  for b in loader: pass", 0, id="folds"),
        pytest.param("for epoch in epochs:\n  loader = {}\n  for b in loader: pass", 0, id="no-range"),
        pytest.param(
            "for run in range(3):\n  loader = {}\n  for e in range(9):\n   for b in loader: pass", 0, id="runs"
        ),
        pytest.param(
            "for x in range(3):\n  loader = {}\n  for e in range(9):\n   for b in loader: pass", 0, id="inner-epochs"
        ),
        pytest.param(
            "for epoch in range(9):\n  ds = D(epoch)\n  loader = {}\n  for b in loader: pass", 0, id="new-dataset"
        ),
        pytest.param("for epoch in range(9):\n  ds.grow()\n  loader = {}\n  for b in loader: pass", 0, id="method"),
        pytest.param("for epoch in range(9):\n  grow(ds)\n  loader = {}\n  for b in loader: pass", 0, id="given-away"),
        pytest.param(
            "for epoch in range(9):\n  ds.items = x\n  loader = {}\n  for b in loader: pass", 0, id="attribute-set"
        ),
        pytest.param("for epoch in range(9):\n  loaders.append({})", 0, id="collected"),
    ],
)
def test_loader_in_a_loop_is_found_if_nothing_changes(loop: str, count: int) -> None:
    """
    Only a loader that each epoch makes from the same is reported; where anything may differ, it is right.
    """
    text = f"{HEAD}def main(ds, step):\n {loop.format('DataLoader(ds, 8, num_workers=2)')}\n"
    assert [each.partition(":")[0] for each in found(text)] == ["check.loader-in-epoch-loop"] * count


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        pytest.param("ds, collate_fn=lambda b: b", "lambda", id="lambda"),
        pytest.param("ds, collate_fn=LAMBDA", "LAMBDA", id="name-of-a-lambda"),
        pytest.param("ds, worker_init_fn=local", "local", id="local-function"),
        pytest.param("ds, collate_fn=partial(local, 3)", "local", id="partial"),
        pytest.param("Local()", "Local", id="local-class"),
        pytest.param("Subset(Local(), [1])", "Local", id="local-class-inside"),
        pytest.param("ImageFolder(x, transform=Compose([Lambda(lambda x: x)]))", "lambda", id="transform"),
        pytest.param("Kept(lambda x: x)", "lambda", id="class-that-keeps-it"),
        pytest.param("ds, collate_fn=guarded", "guarded", id="under-the-guard"),
        pytest.param("ds, collate_fn=top", None, id="function-of-the-module"),
        pytest.param("ds, collate_fn=self.collate", None, id="method"),
        pytest.param("ds, collate_fn=given", None, id="parameter"),
        pytest.param("ds, sampler=sorted(x, key=lambda x: x)", None, id="sampler-stays"),
        pytest.param("ImageFolder(x, is_valid_file=lambda p: True)", None, id="used-while-it-is-made"),
        pytest.param("Files(sorted(x, key=lambda p: p.name))", None, id="sort-key"),
        pytest.param("Used(lambda x: x)", None, id="class-that-does-not-keep-it"),
        pytest.param("ds, collate_fn=lambda b: b, multiprocessing_context='fork'", None, id="fork"),
        pytest.param("ds, collate_fn=(lambda b: b), **{'num_workers': 0}", None, id="no-workers"),
    ],
)
def test_what_workers_cannot_import_is_found(arguments: str, name: str | None) -> None:
    """
    What has no name at the top of a module does not reach a worker; what stays in the script need not.
    """
    workers = "" if "num_workers" in arguments else ", num_workers=2"
    text = (
        f"{HEAD}LAMBDA = lambda b: b\ndef top(b): pass\n"
        "class Kept:\n def __init__(self, f): self.f = f\nclass Used:\n def __init__(self, f): self.x = f(1)\n"
        "def main(self, ds, given):\n def local(b): pass\n class Local: pass\n"
        f" return DataLoader({arguments}{workers})\n"
        "if __name__ == '__main__':\n def guarded(b): pass\n"
    )
    problems = check_source(text, "script.py")
    assert [problem.id for problem in problems] == (["check.not-importable"] if name else [])
    assert all(problem.text.startswith(f"{name!r} does not reach workers") for problem in problems)


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        pytest.param("wandb.init(project='x')", "starts a run of its own", id="wandb"),
        pytest.param("run = wandb.init()", "starts a run of its own", id="assigned"),
        pytest.param("with mlflow.start_run(): pass", "starts a run of its own", id="with"),
        pytest.param(
            "dist.init_process_group('nccl')", "waits for a process group that is complete already", id="group"
        ),
        pytest.param("mp.set_start_method('spawn')", "raises RuntimeError", id="start-method"),
        pytest.param("model = Net().cuda()", "takes GPU memory", id="cuda"),
        pytest.param("model = Net().to('cuda:1')", "takes GPU memory", id="to-cuda"),
        pytest.param("model = Net().to(DEVICE)", "takes GPU memory", id="to-a-name"),
        pytest.param("shutil.rmtree('out')", "deletes files", id="rmtree"),
        pytest.param("log = open('log', 'w')", "empties the file", id="open-to-write"),
        pytest.param("name = input()", "asks for input that a worker does not get", id="input"),
        pytest.param("for i in range(9):\n loss.backward()", "trains", id="training"),
        pytest.param("if x:\n shutil.rmtree('out')", "deletes files", id="in-a-branch"),
        pytest.param("mp.set_start_method('spawn', force=True)", None, id="forced"),
        pytest.param("try:\n mp.set_start_method('spawn')\nexcept RuntimeError:\n pass", None, id="caught"),
        pytest.param("if mp.get_start_method() is None:\n mp.set_start_method('spawn')", None, id="asked-before"),
        pytest.param("mp.set_start_method('fork')", None, id="fork"),
        pytest.param("model = Net().to('cpu')", None, id="to-cpu"),
        pytest.param("model = Net().to(torch.float16)", None, id="to-a-type"),
        pytest.param("model = Net().to(args.device)", None, id="to-what-is-not-known"),
        pytest.param("torch.cuda.manual_seed(0)", None, id="seed"),
        pytest.param("config = open('config').read()", None, id="open-to-read"),
        pytest.param("os.makedirs('out', exist_ok=True)", None, id="makedirs"),
        pytest.param("def start():\n wandb.init()", None, id="in-a-function"),
        pytest.param("start = lambda: wandb.init()", None, id="in-a-lambda"),
        pytest.param("def input(): pass\ninput()", None, id="own-function-of-that-name"),
        pytest.param("for i in range(9): total = i", None, id="small-loop"),
        pytest.param("if __name__ == '__main__':\n wandb.init()", None, id="guarded"),
        pytest.param("__name__ == '__main__' and wandb.init()", None, id="short-circuit"),
    ],
)
def test_side_effect_at_the_top_of_a_script_is_found(statement: str, effect: str | None) -> None:
    """
    Only what costs or destroys something in each worker is reported.
    """
    text = (
        "import torch, wandb, mlflow, shutil, os\nimport torch.distributed as dist\nimport multiprocessing as mp\n"
        f"{HEAD}DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n{statement}\n"
        "if __name__ == '__main__':\n for b in DataLoader(D(), num_workers=2): pass\n"
    )
    problems = check_source(text, "script.py")
    assert [problem.id for problem in problems] == (["check.top-level-side-effect"] if effect else [])
    assert all(f"' {effect} in each worker: " in problem.text for problem in problems if '"' not in problem.text[:1])


def test_side_effect_of_a_module_without_guard_is_not_found() -> None:
    """
    A module that is no script, or whose author knows no guard, is not told what a worker repeats.
    """
    assert found(f"import wandb\nwandb.init()\n{LOADER}") == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param("x.to(device)", 1, id="to"),
        pytest.param("x.cuda()", 1, id="cuda"),
        pytest.param("x.to('cuda')", 1, id="constant"),
        pytest.param("x['image'].to(device)", 1, id="item"),
        pytest.param("{k: v.to(device) for k, v in x.items()}", 1, id="items"),
        pytest.param("x = x.to(device); y = x.to(device)", 1, id="once-a-line"),
        pytest.param("x.to(device, non_blocking=False)", 1, id="said-so"),
        pytest.param("x.to(device, non_blocking=True)", 0, id="right"),
        pytest.param("x.to(device, non_blocking=flag)", 0, id="by-a-flag"),
        pytest.param("x.cuda(0, True)", 0, id="by-position"),
        pytest.param("x.to(device, **options)", 0, id="spread"),
        pytest.param("x.to(torch.float16)", 0, id="type"),
        pytest.param("x.to('cpu')", 0, id="cpu"),
        pytest.param("y.to(device)", 0, id="something-else"),
        pytest.param("x = f(x)\n  x.to(device)", 0, id="made-from-the-batch"),
    ],
)
def test_pinned_batch_is_copied_without_waiting(body: str, count: int) -> None:
    """
    Only a copy of what came out of a pinned loader, to an accelerator, is reported.
    """
    text = f"{HEAD}def main(device, y):\n for x in DataLoader(D(), pin_memory=True):\n  {body}\n"
    assert [each.partition(":")[0] for each in found(text)] == ["check.pinned-blocking"] * count
    assert found(text.replace("pin_memory=True", "pin_memory=False")) == []


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        pytest.param("", 2, id="none"),
        pytest.param("# autoloader: ignore", 0, id="all"),
        pytest.param("# why  # autoloader:ignore", 0, id="behind-another"),
        pytest.param("# autoloader: ignore[check.not-importable]", 1, id="one"),
        pytest.param("# autoloader: ignore[check.not-importable, check.unguarded-iteration]", 0, id="two"),
        pytest.param("# autoloader: ignore[check.pinned-blocking]", 2, id="another"),
        pytest.param("# autoloader: ignored", 2, id="another-word"),
    ],
)
def test_comment_silences_its_line(comment: str, count: int) -> None:
    """
    Findings are silenced by line, all of them or by id.
    """
    assert len(found(f"{HEAD}list(DataLoader(D(), num_workers=2, collate_fn=lambda b: b))  {comment}\n")) == count


def test_problem_tells_its_place_and_text() -> None:
    """
    Lines and columns count from 1, columns in characters; the code is shown without its comment, and cut.
    """
    text = f"{HEAD}name = 'é'; x = list(DataLoader(D('a long name of a data set'), num_workers=2))  # batches\n"
    (problem,) = check_source(text, "a/b.py")
    assert (problem.id, problem.path, problem.line, problem.column) == ("check.unguarded-iteration", "a/b.py", 3, 13)
    code = "x = list(DataLoader(D('a long name of a data set'), num_w..."
    assert problem.text.startswith(f"{code!r} starts workers, and no main guard is around it: ")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("from torch.utils.data import DataLoader\nprint 'python 2'", id="no-python"),
        pytest.param(f"{LOADER}x = {'not ' * 3000}loader\n", id="deep"),
        pytest.param(f"{LOADER}\n\n\n\f\nx = '\x1c'\n", id="form-feed"),
    ],
)
def test_text_that_cannot_be_followed_has_no_findings(text: str) -> None:
    """
    Nothing is found where nothing can be understood, and nothing is raised.
    """
    assert found(text) == []


def python_of(path: Path) -> str:
    """
    Return a file's code; of a page, all of its blocks.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


OWN = [
    *(path for name in ("src", "examples", "benchmarks", "docs", "tests") for path in (ROOT / name).rglob("*.py")),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
]


def test_nothing_is_found_in_the_project_itself() -> None:
    """
    Our own code, examples, tests and the blocks of the pages are right.
    """
    own = [path for path in OWN if path not in SCRIPTS]
    assert len(own) > 50
    assert [problem for path in own for problem in check_source(python_of(path), path.name)] == []
