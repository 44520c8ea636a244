"""Files may come from anybody: nothing on disk is unpickled, evaluated or loaded with the code that lies beside it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("actors", "experiments", "retrieval", "topologies")
# Modules and functions that run what a file holds. The channel unpickles what its own processes send, after a key; a
# learner's actor takes back the state that one before it gave, over Ray and never from a file.
LOADS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
MAY_PICKLE = {"actors/runtime/channel.py", "actors/runtime/stateful.py"}
CALLS = {"eval", "exec", "compile", "__import__", "runpy.run_path", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
TORCH = {"torch.load", "torch.jit.load", "torch.package.PackageImporter", "np.load", "numpy.load", "pandas.read_pickle"}


def sources() -> Iterator[tuple[str, ast.AST]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())
    yield "run.py", ast.parse((ROOT / "run.py").read_text())


def found_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in LOADS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LOADS:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            name, given = ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}
            if name in CALLS or (
                name in TORCH and given.get("weights_only") != "True" and given.get("allow_pickle") != "False"
            ):
                yield name
            elif given.get("trust_remote_code", "False") == "True" or given.get("allow_pickle", "False") == "True":
                yield f"{name} with {given}"


def test_nothing_that_a_file_holds_is_run() -> None:
    strange = {path: found for path, tree in sources() if (found := list(found_in(tree))) and path not in MAY_PICKLE}
    assert strange == {}


def test_what_would_run_a_file_is_found() -> None:
    lines = (
        *("import pickle", "from joblib import load", "torch.load(path)", "torch.load(path, weights_only=False)"),
        *(
            "yaml.load(text)",
            "eval(text)",
            "np.load(p, allow_pickle=True)",
            "AutoModel.from_pretrained(n, trust_remote_code=True)",
        ),
    )
    assert all(list(found_in(ast.parse(line))) for line in lines)
    fine = ("torch.load(path, weights_only=True)", "model.eval()", "re.compile(x)", "make(trust_remote_code=False)")
    assert not any(list(found_in(ast.parse(line))) for line in fine)
