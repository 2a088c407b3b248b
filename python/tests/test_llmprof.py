"""Tests of the installed wheel: python -m unittest discover python/tests."""

import gc
import importlib.util
import json
import keyword
import subprocess
import sys
import typing
import unittest

import llmprof
from llmprof import _table, _types


def has(*modules):
    return all(importlib.util.find_spec(m) for m in modules)


class Wheel(unittest.TestCase):
    def test_estimate_has_the_fields_of_the_json(self):
        e = llmprof.estimate(model="llama3.1-8b", gpu="h100", tp=2)
        said = subprocess.run([llmprof.program(), "estimate", "llama3.1-8b", "h100", "--tp", "2", "--format", "json"],
                              capture_output=True, check=True)
        want = json.loads(said.stdout)
        self.assertIsInstance(e, llmprof.Estimate)
        self.assertEqual(set(vars(e)), set(want))
        self.assertEqual(e.ttft_s.expected, want["ttft_s"]["expected"])
        self.assertEqual(e["memory"]["weights_bytes"], e.memory.weights_bytes)
        self.assertEqual((e.parallelism.tp, e.gpu.count), (2, 2))

    def test_what_is_written_has_the_types_that_are_declared(self):
        for document in (
            llmprof.estimate("qwen3-30b-a3b", "h100", batch=8),
            llmprof.simulate("llama3.2-1b", "h100", rate=[1, 2], requests=50),
            llmprof.plan("llama3.2-1b", gpus="h100,l4", tpot="20ms"),
            llmprof.validate(engine="native", gpu="h100"),
        ):
            self.declared(document, type(document), type(document).__name__)

    def declared(self, value, kind, path):
        """Fails where a value is not of a type: objects have their fields, each of its own type."""
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if kind is typing.Any:
            return
        if origin is typing.Union:
            fits = []
            for option in args:
                try:
                    self.declared(value, option, path)
                    fits.append(option)
                except AssertionError:
                    pass
            self.assertTrue(fits, f"{path}: {value!r:.200} is none of {args}")
        elif origin is list:
            self.assertIsInstance(value, list, path)
            for i, item in enumerate(value):
                self.declared(item, args[0], f"{path}[{i}]")
        elif isinstance(kind, type) and issubclass(kind, llmprof.Object):
            self.assertIsInstance(value, llmprof.Object, path)
            if kind is not llmprof.Object:
                fields = typing.get_type_hints(kind, vars(_types))
                for key, item in vars(value).items():
                    if not keyword.iskeyword(key):
                        self.assertIn(key, fields, path)
                        self.declared(item, fields[key], f"{path}.{key}")
        elif kind is float:
            self.assertIsInstance(value, (int, float), path)
        else:
            self.assertIs(type(value), kind, path)

    def test_errors_have_the_words_of_the_program(self):
        with self.assertRaises(llmprof.Error) as raised:
            llmprof.estimate(model="llama3.1-8b", gpu="h1000")
        self.assertIn('GPU "h1000" is not known', str(raised.exception))
        self.assertIn("h100", str(raised.exception))
        self.assertEqual(raised.exception.code, 2)
        with self.assertRaisesRegex(llmprof.Error, "no deployment qualifies") as raised:
            llmprof.plan("llama3.1-70b", gpus="l4", tpot="1ms")
        self.assertEqual(raised.exception.code, 1)
        with self.assertRaisesRegex(llmprof.Error, "tensor-parallel"):
            llmprof.estimate(model="llama3.1-8b", gpu="h100", **{"tensor_parallel": 2})

    def test_a_name_is_no_flag(self):
        with self.assertRaises(llmprof.Error):
            llmprof.estimate(model="--help", gpu="h100")
        with self.assertRaises(llmprof.Error):
            llmprof.validate("--help")

    def test_pyarrow_takes_a_sweep_with_the_types_of_its_schema(self):
        pyarrow = self.module("pyarrow")
        for settings in {"batch": range(1, 9), "tp": [1, 2]}, {"rate": [1, 2]}:
            table = llmprof.sweep("llama3.1-8b", gpu=["h100", "l4"], keep=True, **settings)
            got = pyarrow.table(table)
            got.validate(full=True)
            self.assertEqual(len(table), got.num_rows)
            flags = [f"--{name}={','.join(map(str, value))}" for name, value in settings.items()]
            said = subprocess.run([llmprof.program(), "sweep", "llama3.1-8b", "h100,l4", "--keep", "--format", "json", *flags],
                                  capture_output=True, check=True)
            self.assertEqual(got.to_pylist(), json.loads(said.stdout))
            for name, kind in typing.get_type_hints(_types.Sweep, vars(_types)).items():
                if name in got.column_names:
                    want = next(k for k in (str, bool, float, int) if k in (typing.get_args(kind) or (kind,)))
                    types = {str: "large_string", bool: "bool", float: "double", int: "int64"}
                    self.assertEqual(str(got.schema.field(name).type), types[want])

    def test_pandas_takes_a_sweep_without_a_copy(self):
        pandas, pyarrow = self.module("pandas"), self.module("pyarrow")
        table = llmprof.sweep(model="llama3.1-8b", gpu=["h100", "h200"], batch=range(1, 9))
        frame = pandas.DataFrame.from_arrow(table)
        alone = llmprof.estimate("llama3.1-8b", "h200", batch=8)
        row = frame[(frame.gpu == alone.gpu.key) & (frame.batch == 8)]
        self.assertEqual((len(frame), len(row)), (16, 1))
        self.assertAlmostEqual(row.ttft_s.item(), alone.ttft_s.expected, places=12)
        frame = pyarrow.table(table).to_pandas(types_mapper=pandas.ArrowDtype)
        arrays = [frame[name].array.__arrow_array__() for name in ("batch", "ttft_s")]
        self.assertEqual(self.addresses(table), [a.chunk(0).buffers()[1].address for a in arrays])

    def test_polars_takes_a_sweep_without_a_copy(self):
        polars = self.module("polars")
        table = llmprof.sweep(model="llama3.1-8b", gpu="h100", batch="1..8x2")
        frame = polars.DataFrame(table)
        self.assertEqual(frame["batch"].to_list(), [1, 2, 4, 8])
        if has("pyarrow"):
            self.assertEqual(self.addresses(table), [frame[name].to_arrow().buffers()[1].address for name in ("batch", "ttft_s")])

    def test_columns_live_until_they_are_released(self):
        polars = self.module("polars")
        table = llmprof.sweep(model="llama3.1-8b", gpu="h100", batch=range(1, 9))
        before = len(_table._kept)
        table.__arrow_c_stream__()  # nobody takes it
        frame = polars.DataFrame(table)
        self.assertGreater(len(_table._kept), before)
        column = frame["batch"]
        del table, frame
        gc.collect()
        self.assertEqual(column.to_list(), list(range(1, 9)))
        del column
        gc.collect()
        self.assertEqual((len(_table._kept), _table._given), (before, {}))

    def test_a_process_ends_with_columns_that_are_held(self):
        self.module("polars")
        self.module("pyarrow")
        code = "import llmprof, polars, pyarrow; t = llmprof.sweep('llama3.1-8b', 'h100'); held = polars.DataFrame(t), pyarrow.table(t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def module(self, name):
        if not has(name):
            self.skipTest(f"no {name}")
        return importlib.import_module(name)

    def addresses(self, table):
        """Where the values of two columns lie."""
        return [buffers[1].buffer_info()[0] for name, _, _, buffers in table._columns if name in ("batch", "ttft_s")]

    @unittest.skipUnless(has("mypy"), "no mypy")
    def test_types_are_checked(self):
        def check(code):
            return subprocess.run([sys.executable, "-m", "mypy", "--strict", "-c", code], capture_output=True, text=True)

        right = check("import llmprof\nx: float = llmprof.estimate('m', 'g', tp=2).ttft_s.expected")
        self.assertEqual(right.returncode, 0, right.stdout)
        for code, words in (("estimate('m', 'g').ttft", '"Estimate" has no attribute "ttft"'),
                            ("estimate('m', 'g', tpp=2)", 'Unexpected keyword argument "tpp"')):
            self.assertIn(words, check("import llmprof\nllmprof." + code).stdout)


if __name__ == "__main__":
    unittest.main()
