"""Makes wheels that carry the program: python3 python/build.py VERSION FOLDER GOOS/GOARCH...

A wheel has the module llmprof, its types as the schemas of what the program writes have them, and the program as a script.
"""

import base64
import hashlib
import json
import keyword
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Go links no libc on Linux, so that the program runs beside glibc and musl alike.
TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
    "windows/arm64": "win_arm64",
}
COMMANDS = ("estimate", "sweep", "simulate", "plan", "validate")
GIVEN = {"model", "gpu", "format", "output", "color", "help", "help-all"}  # parameters of the functions, and what is of no use there


OBJECT = '''class Object:
    """An object of JSON with its fields as attributes."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def __getitem__(self, key: str) -> Any:
        return vars(self)[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"'''


def compiled(file, **env):
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "./cmd/llmprof"], cwd=ROOT, check=True,
                   env={**os.environ, "CGO_ENABLED": "0", **env})


def types(program):
    """The source of _types.py: a class for each object that the commands write, and the flags of each command."""
    out = ['"""Types of what llmprof takes and writes, made from its help and its schemas."""', "from __future__ import annotations", "",
           "from typing import Any, Dict, List, Sequence, TypedDict, Union", "",
           "Setting = Union[str, int, float, bool, None, Sequence[Union[str, int, float]]]", "", "", *OBJECT.splitlines()]
    for command in COMMANDS:
        said = subprocess.run([program, "schema", command], check=True, capture_output=True)
        Classes(command, json.loads(said.stdout), out)
        said = subprocess.run([program, command, "--help-all"], check=True, capture_output=True, text=True).stdout
        flags = sorted(set(re.findall(r"^ +(?:-\w, +)?--([a-z0-9-]+)", said, re.M)) - GIVEN)
        if command == "validate":  # whose model and GPU choose among observations
            flags += ["gpu", "model"]
        names = [n for n in (f.replace("-", "_") for f in flags) if not keyword.iskeyword(n)]
        out += ["", "", f"class {command.title()}Settings(TypedDict, total=False):", *(f"    {n}: Setting" for n in names)]
    return "\n".join(out) + "\n"


class Classes:
    """Writes the classes of a schema. Keys that are no names are left to Object."""

    def __init__(self, command, schema, out):
        self.prefix, self.defs, self.out, self.done = command.title(), schema.get("$defs", {}), out, {}
        while "properties" not in schema:  # the document is a definition or a list of them, alone or with others that limit it
            schema = next(o.get("items", o) for o in schema.get("allOf", [schema]) if "$ref" in o.get("items", o) or "properties" in o)
            schema = self.defs[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
        self.object(self.prefix, schema)

    def object(self, name, schema):
        if name in self.done:
            return name
        self.done[name] = True
        fields = [(key, self.type(name + key.title().replace("_", ""), of)) for key, of in schema["properties"].items()
                  if key.isidentifier() and not keyword.iskeyword(key)]
        self.out += ["", "", f"class {name}(Object):"]
        if text := schema.get("description"):
            self.out.append(f"    {json.dumps(text, ensure_ascii=False)}")
        self.out += [f"    {key}: {type}" for key, type in fields] or ["    pass"]
        return name

    def type(self, name, of):
        if "$ref" in of:
            ref = of["$ref"].rsplit("/", 1)[-1]
            return self.type(self.prefix + "".join(part[:1].upper() + part[1:] for part in re.split(r"\W+", ref)), self.defs[ref])
        if options := of.get("anyOf") or of.get("oneOf"):
            return "Union[" + ", ".join(dict.fromkeys(self.type(name, {**of, **o, "anyOf": None, "oneOf": None}) for o in options)) + "]"
        kinds = of.get("type", "any")
        if isinstance(kinds, list):
            return "Union[" + ", ".join(dict.fromkeys(self.type(name, {**of, "type": k}) for k in kinds)) + "]"
        if kinds == "array":
            return f"List[{self.type(name, of.get('items', {}))}]"
        if kinds == "object":
            return self.object(name, of) if of.get("properties") else "Object"
        if kinds == "any" and "const" in of:
            return "str"
        return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(kinds, "Any")


def wheel(folder, version, system, program, source):
    """Writes a wheel: files with their hashes in RECORD, all at one time, so that the same sources make the same wheel."""
    tags, info = TAGS[system], f"llmprof-{version}.dist-info"
    exe = "llmprof.exe" if system.startswith("windows") else "llmprof"
    module = ROOT / "python/llmprof"
    files = {f"llmprof/{f.name}": f.read_bytes() for f in sorted(module.iterdir()) if f.is_file()}
    files["llmprof/_types.py"] = source.encode()
    files[f"llmprof-{version}.data/scripts/{exe}"] = program.read_bytes()
    for name in "LICENSE", "THIRD_PARTY_NOTICES":
        files[f"{info}/licenses/{name}"] = (ROOT / name).read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: llmprof\nVersion: {version}\nSummary: Predict what LLM inference costs on a GPU\n"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\nLicense-File: THIRD_PARTY_NOTICES\nRequires-Python: >=3.9\n"
        f"Description-Content-Type: text/markdown\n\n").encode() + (ROOT / "README.md").read_bytes()
    lines = "".join(f"Tag: py3-none-{t}\n" for t in tags.split("."))
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: llmprof\nRoot-Is-Purelib: false\n{lines}".encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"llmprof-{version}-py3-none-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100755 if "/scripts/" in name else 0o100644) << 16
            out.writestr(entry, data)
    print(path)


def main(version, folder, *systems):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    here = folder / "llmprof.here"
    compiled(here.resolve())
    source = types(str(here.resolve()))
    for system in systems:
        program = folder / ("llmprof." + system.replace("/", "-"))
        goos, goarch = system.split("/")
        compiled(program.resolve(), GOOS=goos, GOARCH=goarch)
        wheel(folder, version, system, program, source)
        program.unlink()
    here.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
