"""
Which statements of a script a worker runs that imports it again.
"""

import ast
import textwrap
import warnings

import pytest

from autoloader.start.source import is_guarded, may_be_guarded, parse_module, statement_at


def asks(text: str) -> bool:
    """
    Return whether the line that ends with ``# here`` is guarded.
    """
    text = textwrap.dedent(text)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here"))
    tree = parse_module(text)
    assert tree is not None
    return is_guarded(tree, line)


@pytest.mark.parametrize(
    "test",
    [
        '__name__ == "__main__"',
        '"__main__" == __name__',
        'not __name__ != "__main__"',
        'not (__name__ != "__main__")',
        '__name__ in ("__main__",)',
        '__name__ in ["__main__", "builtins"]',
        '__name__ in {"__main__"}',
        '__name__ not in ("__mp_main__", "x")',
        '__name__ == "__main__" and args.train',
        'args.train and __name__ == "__main__"',
        '__name__ == "__main__" and (args.train or args.test)',
        '__name__ == "__main__" or False',
        '__name__ is "__main__"',
        '__name__ != "__mp_main__"',
        '__name__.startswith("__main")',
        '(is_main := __name__ == "__main__")',
        'multiprocessing.current_process().name == "MainProcess"',
        '"MainProcess" == mp.current_process().name',
        'current_process().name in ("MainProcess",)',
        "mp.parent_process() is not None",
        "typing.TYPE_CHECKING",
        "TYPE_CHECKING",
        "False",
    ],
)
def test_test_that_fails_in_a_worker_guards(test: str) -> None:
    """
    The branch behind such a test runs in the user's process only, and its else-branch in a worker, too.
    """
    assert asks(f"if {test}:\n    main()  # here")
    assert not asks(f"if {test}:\n    pass\nelse:\n    main()  # here")
    assert not asks(f"if not ({test}):\n    main()  # here")
    assert asks(f"if not ({test}):\n    pass\nelse:\n    main()  # here")


@pytest.mark.parametrize(
    "test",
    [
        "True",
        "args.train",
        "torch.cuda.is_available()",
        '__name__ == "__main__" or args.force',
        '__name__ in ("__main__", "__mp_main__")',
        '__name__ in ("__main__", name)',
        "__name__ in NAMES",
        '__name__ == NAME == "__main__"',
        '__name__ < "__main__"',
        '__name__.endswith("main__")',
        '__name__.count("__main__")',
        'name == "__main__"',
        'mp.current_process().name == "SpawnProcess-1"',
        'mp.current_process().name != "MainProcess"',
        'current_process(1).name == "MainProcess"',
        "multiprocessing.parent_process() is None",
        "None is parent_process()",
        "not mp.parent_process()",
        "not mp.current_process().daemon",
        "local_rank == 0",
        "get_worker_info() is None",
    ],
)
def test_test_that_may_hold_in_a_worker_does_not_guard(test: str) -> None:
    """
    What source does not tell counts as entered.
    """
    assert not asks(f"if {test}:\n    main()  # here")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('IS_MAIN = __name__ == "__main__"\nif IS_MAIN:\n    main()  # here', id="name"),
        pytest.param('IS_MAIN: bool = __name__ == "__main__"\nif IS_MAIN:\n    main()  # here', id="annotated-name"),
        pytest.param('name = __name__\nif name == "__main__":\n    main()  # here', id="copy-of-the-name"),
        pytest.param('if (is_main := __name__ == "__main__"):\n    x\nif is_main:\n    main()  # here', id="walrus"),
        pytest.param('if __name__ == "__main__": main()  # here', id="one-line"),
        pytest.param('if __name__ == "__main__": a = 1; main()  # here', id="two-statements-on-one-line"),
        pytest.param('if args.x:\n    x\nelif __name__ == "__main__":\n    main()  # here', id="elif"),
        pytest.param('if __name__ != "__main__":\n    x\nelif y:\n    x\nelse:\n    main()  # here', id="last-else"),
        pytest.param('try:\n    if __name__ == "__main__":\n        main()  # here\nexcept Error:\n    pass', id="try"),
        pytest.param(
            'if __name__ == "__main__":\n    try:\n        main()  # here\n    finally:\n        x', id="in-try"
        ),
        pytest.param(
            'if __name__ == "__main__":\n    try:\n        x\n    except E:\n        main()  # here', id="except"
        ),
        pytest.param('with quiet():\n    if __name__ == "__main__":\n        main()  # here', id="with"),
        pytest.param('if True:\n    if __name__ == "__main__":\n        main()  # here', id="if-true"),
        pytest.param(
            'if __name__ == "__main__":\n    for x in y:\n        with z:\n            main()  # here', id="deep"
        ),
        pytest.param('def main():\n    if __name__ == "__main__":\n        run()  # here', id="in-a-function"),
        pytest.param('async def main():\n    if __name__ == "__main__":\n        run()  # here', id="in-a-coroutine"),
        pytest.param('class Main:\n    if __name__ == "__main__":\n        run()  # here', id="in-a-class"),
        pytest.param('if __name__ == "__main__":\n    def main():\n        run()  # here', id="function-in-the-guard"),
        pytest.param(
            'def main():\n    if __name__ != "__main__":\n        return\n    run()  # here', id="early-return"
        ),
        pytest.param(
            'def main():\n    if __name__ == "__main__":\n        x\n    else:\n        return 1\n    run()  # here',
            id="else-return",
        ),
        pytest.param('match __name__:\n    case "__main__":\n        main()  # here', id="match"),
        pytest.param('match __name__:\n    case "__main__" | "x":\n        main()  # here', id="match-or"),
        pytest.param('match __name__ == "__main__":\n    case True:\n        main()  # here', id="match-true"),
        pytest.param(
            'match __name__:\n    case "__mp_main__":\n        x\n    case _:\n        main()  # here', id="match-rest"
        ),
        pytest.param('match x:\n    case 1 if __name__ == "__main__":\n        main()  # here', id="match-guard"),
        pytest.param('match __name__:\n    case "__main__" as name:\n        main()  # here', id="match-as"),
        pytest.param('while __name__ == "__main__":\n    main()  # here\n    break', id="while"),
        pytest.param('__name__ == "__main__" and main()  # here', id="and"),
        pytest.param('__name__ != "__main__" or main()  # here', id="or"),
        pytest.param('main() if __name__ == "__main__" else None  # here', id="conditional-expression"),
        pytest.param('result = main() if __name__ == "__main__" else None  # here', id="assigned"),
        pytest.param('if __name__ == "__main__" and main():  # here\n    pass', id="header"),
        pytest.param(
            'if __name__ == "__main__":\n    main(\n        x,  # here\n    )', id="line-inside-the-statement"
        ),
    ],
)
def test_statement_is_guarded(text: str) -> None:
    """
    A guard counts wherever it stands around the statement, and however it is written.
    """
    assert asks(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("main()  # here", id="top"),
        pytest.param("x = 1  # here", id="assignment"),
        pytest.param("def main():\n    run()  # here", id="function"),
        pytest.param('if __name__ == "__main__":  # here\n    main()', id="header-of-the-guard"),
        pytest.param('if __name__ == "__main__":\n    x\nmain()  # here', id="behind-the-guard"),
        pytest.param('IS_MAIN = __name__ == "__main__"\nIS_MAIN = True\nif IS_MAIN:\n    main()  # here', id="rebound"),
        pytest.param('def f(main):\n    if main:\n        x  # here\nmain = __name__ == "__main__"', id="shadowed"),
        pytest.param("DEBUG = False\nif DEBUG:\n    main()  # here", id="switch"),
        pytest.param('a, b = __name__ == "__main__", 1\nif a:\n    main()  # here', id="unpacked"),
        pytest.param('if __name__ != "__main__":\n    raise ImportError\nmain()  # here', id="raise-kills-the-worker"),
        pytest.param("def f():\n    if x:\n        return\n    run()  # here", id="some-return"),
        pytest.param(
            'def f():\n    if __name__ == "__main__":\n        return\n    run()  # here', id="return-in-the-script"
        ),
        pytest.param(
            'match __name__:\n    case "__main__":\n        x\n    case _:\n        main()  # here', id="other-case"
        ),
        pytest.param("match __name__:\n    case [x]:\n        main()  # here", id="pattern-that-is-not-read"),
        pytest.param("match x:\n    case None:\n        main()  # here", id="match-of-something-else"),
        pytest.param("for x in y:\n    pass\nelse:\n    main()  # here", id="for-else"),
        pytest.param('main() if __name__ != "__main__" else None  # here', id="wrong-way-round"),
        pytest.param('a() if __name__ == "__main__" else b()  # here', id="calls-either-way"),
        pytest.param('main() and __name__ == "__main__"  # here', id="test-behind-the-call"),
        pytest.param("\n# here", id="no-statement"),
    ],
)
def test_statement_is_not_guarded(text: str) -> None:
    """
    A worker would run it too, or cannot be proven not to.
    """
    assert not asks(text)


def test_line_outside_the_module_is_not_guarded() -> None:
    """
    A line that no statement contains is no statement in a guard.
    """
    tree = ast.parse('if __name__ == "__main__":\n    main()\n')
    assert not is_guarded(tree, 0)
    assert not is_guarded(tree, 99)


def test_long_elif_chain_needs_no_stack() -> None:
    """
    Branches are walked in a loop, not by recursion.
    """
    chain = "".join(f"elif x == {number}:\n    pass\n" for number in range(500))
    assert asks(f'if x:\n    pass\n{chain}elif __name__ == "__main__":\n    main()  # here')


@pytest.mark.parametrize(
    ("line", "first"),
    [
        pytest.param(1, 1, id="one-line"),
        pytest.param(2, None, id="empty-line"),
        pytest.param(3, 4, id="decorator"),
        pytest.param(5, 4, id="body"),
        pytest.param(7, 6, id="second-line"),
        pytest.param(8, None, id="behind-the-end"),
    ],
)
def test_statement_at_is_the_one_of_the_module(line: int, first: int | None) -> None:
    """
    The top-level statement is found from any of its lines, decorators included.
    """
    tree = ast.parse("import x\n\n@y\ndef f():\n    pass\nz(\n)\n")
    statement = statement_at(tree, line)
    assert (statement and statement.lineno) == first


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("print 'python 2'", id="python-2"),
        pytest.param("%matplotlib inline", id="notebook-magic"),
        pytest.param("x = '\0'", id="null-byte"),
        pytest.param("(" * 1000, id="open-brackets"),
        pytest.param("-" * 100_000 + "1", id="too-deep"),
    ],
)
def test_text_that_is_not_python_has_no_tree(text: str) -> None:
    """
    What this version of Python cannot parse is None, never an error.
    """
    assert parse_module(text) is None


def test_parsing_is_silent_and_ignores_a_byte_order_mark() -> None:
    """
    Warnings about somebody else's escapes are neither shown nor errors.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = parse_module("\ufeffx = '\\d' is 1\n")
    assert (isinstance(tree, ast.Module), caught) == (True, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("main()\n", False, id="bare-call"),
        pytest.param("for batch in loader:\n    step()\n", False, id="loop"),
        pytest.param("import sys\nif len(sys.argv) > 1:\n    main()\n", False, id="another-test"),
        pytest.param("if __name__ == '__main__':\n    main()\n", True, id="guard"),
        pytest.param("if not os.environ.get('STARTED'):\n    main()\n", True, id="environment"),
        pytest.param("{'__main__': main}.get(__name__, noop)()\n", True, id="looked-up-by-name"),
        pytest.param("@ex.automain\ndef main():\n    train()\n", True, id="decorator-that-calls"),
        pytest.param("if os.getppid() == START:\n    main()\n", True, id="parent"),
        pytest.param("for _ in [1] if __name__ == '__main__' else []:\n    main()\n", True, id="loop-over-a-test"),
        pytest.param(
            "def is_main():\n    return __name__ == '__main__'\n\nif is_main():\n    go()\n", True, id="function"
        ),
        pytest.param("run = go if __name__ == '__main__' else noop\nrun()\n", True, id="chosen-function"),
        pytest.param("while True:\n    if __name__ != '__main__':\n        break\n    go()\n", True, id="break-before"),
        pytest.param("if globals()['__name__'] == '__main__':\n    go()\n", True, id="globals"),
        pytest.param("log = logging.getLogger(__name__)\nlog.info('x')\ngo()\n", False, id="name-of-a-logger"),
        pytest.param("def main():\n    log(__name__)\n\nmain()\n", False, id="name-in-the-function-called"),
        pytest.param("def main():\n    if os.environ.get('X'):\n        train()\n", True, id="inside-a-function"),
    ],
)
def test_statement_that_something_unusual_may_guard_is_left_alone(text: str, expected: bool) -> None:
    """
    Where source does not settle it, nobody is told that a guard is missing; the last line is asked about.
    """
    tree = parse_module(text)
    assert tree is not None
    assert may_be_guarded(tree, len(text.splitlines())) is expected
