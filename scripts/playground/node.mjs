/**
 * Run a Python program in the playground's Python, under Node, with the library of the playground.
 *
 *     node node.mjs PROGRAM.py
 *
 * The program reads this process's standard input and writes to its standard output. It sees the
 * repository at /repository.
 */

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const repository = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const site = path.join(repository, "site", "playground");
const folder = fs.existsSync(site) && fs.readdirSync(site).find((name) => name.startsWith("python-"));
if (!folder) throw new Error("there is no playground; run: make playground");
const files = path.join(site, folder);

const { loadPyodide } = await import(pathToFileURL(path.join(files, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: files, env: { HOME: "/home/pyodide" } });
const bytes = fs.readFileSync(path.join(files, "packages.zip"));
const packages = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
python.unpackArchive(packages, "zip", { extractDir: "/packages" });
python.FS.mkdirTree("/repository");
python.FS.mount(python.FS.filesystems.NODEFS, { root: repository }, "/repository");
python.globals.set("program", path.relative(repository, path.resolve(process.argv[2])));
try {
  python.runPython(`
import runpy, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "/packages")
runpy.run_path(f"/repository/{program}", run_name="__main__")
`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
