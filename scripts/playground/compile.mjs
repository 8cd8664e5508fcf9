/**
 * Compile Python modules in Pyodide, and write them as one archive. MADE gets a JSON object of the
 * scripts of the page that the library makes, by name.
 *
 *     node compile.mjs PYODIDE ARCHIVE MADE LIBRARY WHEEL ...
 *
 * The same files give the same archive: it has no times, and its entries are sorted.
 */

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, archive, made, library, ...wheels] = process.argv.slice(2).map((name) => path.resolve(name));

const PROGRAM = `
import compileall, pathlib, py_compile, shutil, zipfile

target = pathlib.Path("/packages")
shutil.copytree("/library", target, dirs_exist_ok=True)
compiled = compileall.compile_dir(
    target, legacy=True, quiet=1, workers=1, stripdir="/packages", prependdir="/packages",
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
assert compiled, "a module cannot be compiled"
with zipfile.ZipFile("/packages.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in sorted(target.rglob("*")):
        if path.is_file() and path.suffix not in (".py", ".pyi"):
            entry = zipfile.ZipInfo(str(path.relative_to(target)))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
`;

const SCRIPTS = `
import json, sys

sys.path.insert(0, "/packages")
from gpt_oss_harmony.inspector.calls import MADE_FILES

json.dumps({name: make() for name, make in MADE_FILES.items()})
`;

const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: pyodide });
python.FS.mkdirTree("/library");
python.FS.mount(python.FS.filesystems.NODEFS, { root: library }, "/library");
for (const wheel of wheels) {
  const bytes = fs.readFileSync(wheel);
  python.unpackArchive(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength), "zip", {
    extractDir: "/packages",
  });
}
python.runPython(PROGRAM);
fs.writeFileSync(archive, python.FS.readFile("/packages.zip"));
fs.writeFileSync(made, python.runPython(SCRIPTS));
