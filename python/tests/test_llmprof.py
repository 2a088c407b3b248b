"""Tests of the installed wheel: python -m unittest python/test_llmprof.py."""

import importlib.util
import json
import keyword
import subprocess
import sys
import typing
import unittest

import llmprof
from llmprof import _types


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

    def test_sweep_is_a_file_of_parquet(self):
        table = llmprof.sweep(model="llama3.1-8b", gpu=["h100", "h200"], batch=range(1, 9))
        self.assertEqual(table.getvalue()[:4], b"PAR1")

    @unittest.skipUnless(has("pandas", "pyarrow"), "no pandas with pyarrow")
    def test_pandas_reads_a_sweep(self):
        import pandas

        frame = pandas.read_parquet(llmprof.sweep(model="llama3.1-8b", gpu=["h100", "h200"], batch=range(1, 9)))
        alone = llmprof.estimate("llama3.1-8b", "h200", batch=8)
        row = frame[(frame.gpu == alone.gpu.key) & (frame.batch == 8)]
        self.assertEqual((len(frame), len(row)), (16, 1))
        self.assertAlmostEqual(row.ttft_s.item(), alone.ttft_s.expected, places=12)

    @unittest.skipUnless(has("polars"), "no polars")
    def test_polars_reads_a_sweep(self):
        import polars

        frame = polars.read_parquet(llmprof.sweep(model="llama3.1-8b", gpu="h100", batch="1..8x2"))
        self.assertEqual(frame["batch"].to_list(), [1, 2, 4, 8])

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
