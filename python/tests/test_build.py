"""Tests of what makes the wheels, with a program that only says its name."""

import base64
import csv
import email
import hashlib
import importlib.util
import io
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

# Its folder is not put on the path: it has the package too, without what a wheel adds, which would hide the wheel that is installed.
source = importlib.util.spec_from_file_location("build", Path(__file__).resolve().parent.parent / "build.py")
build = importlib.util.module_from_spec(source)
source.loader.exec_module(build)

# A platform that pip may be on, for each system.
PLATFORMS = {
    "linux/amd64": "manylinux_2_17_x86_64 musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64 musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_14_0_x86_64",
    "darwin/arm64": "macosx_15_0_arm64",
    "windows/amd64": "win_amd64",
    "windows/arm64": "win_arm64",
}


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        program = cls.folder / "program"
        program.write_bytes(b"#!/bin/sh\necho it runs\n")
        for system in build.TAGS:
            build.wheel(cls.folder, "1.2.3", system, program, "class Object: pass\n")
        cls.wheels = sorted(cls.folder.glob("*.whl"))

    def pip(self, *words):
        return subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words, "--no-deps", "--no-index", "--quiet",
                               "--find-links", str(self.folder), "llmprof"], capture_output=True, text=True)

    def test_pip_takes_the_wheel_of_its_platform(self):
        self.assertEqual(PLATFORMS.keys(), build.TAGS.keys())
        for system, platforms in PLATFORMS.items():
            for platform in platforms.split():
                with self.subTest(platform), tempfile.TemporaryDirectory() as into:
                    done = self.pip("download", "--only-binary=:all:", "--python-version", "3.9", "--platform", platform, "--dest", into)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual([f.name for f in Path(into).iterdir()], [f"llmprof-1.2.3-py3-none-{build.TAGS[system]}.whl"])
        with tempfile.TemporaryDirectory() as into:
            done = self.pip("download", "--only-binary=:all:", "--platform", "linux_riscv64", "--dest", into)
        self.assertIn("No matching distribution", done.stderr)

    def test_files_are_those_of_the_record(self):
        self.assertEqual(len(self.wheels), len(build.TAGS))
        for path in self.wheels:
            with self.subTest(path.name), zipfile.ZipFile(path) as wheel:
                rows = list(csv.reader(io.StringIO(wheel.read("llmprof-1.2.3.dist-info/RECORD").decode())))
                self.assertEqual([r[0] for r in rows], wheel.namelist())
                for name, digest, size in rows[:-1]:
                    data = wheel.read(name)
                    want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, int(size)), ("sha256=" + want, len(data)), name)
                scripts = [n for n in wheel.namelist() if "/scripts/" in n]
                exe = "llmprof.exe" if "-win_" in path.name else "llmprof"
                self.assertEqual(scripts, ["llmprof-1.2.3.data/scripts/" + exe])
                self.assertIn("llmprof/py.typed", wheel.namelist())

    def test_metadata_agrees_with_the_names(self):
        for path in self.wheels:
            with self.subTest(path.name), zipfile.ZipFile(path) as wheel:
                said = email.message_from_bytes(wheel.read("llmprof-1.2.3.dist-info/METADATA"))
                self.assertEqual((said["Name"], said["Version"], said["Requires-Python"]), ("llmprof", "1.2.3", ">=3.9"))
                self.assertTrue(said["Summary"] and said.get_payload().startswith("# llmprof"))
                for name in said.get_all("License-File"):
                    self.assertIn(f"llmprof-1.2.3.dist-info/licenses/{name}", wheel.namelist())
                tags = email.message_from_bytes(wheel.read("llmprof-1.2.3.dist-info/WHEEL")).get_all("Tag")
                self.assertEqual(".".join(t.rsplit("-", 1)[1] for t in tags), path.stem.rsplit("-", 1)[1])

    @unittest.skipIf(sys.platform == "win32", "the program is a script of a shell")
    def test_the_program_can_be_run(self):
        with tempfile.TemporaryDirectory() as into:
            done = self.pip("install", "--target", into)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = subprocess.run([Path(into, "bin", "llmprof")], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "it runs\n")


if __name__ == "__main__":
    unittest.main()
