"""The server of llama.cpp from the wheel ``xllamacpp``: ``llama_cpp_server.py FILE PORT``."""

from __future__ import annotations

import signal
import sys

import xllamacpp  # type: ignore[import-not-found,unused-ignore]

SLOTS = 4
CONTEXT = 4096

file, port = sys.argv[1:]
options = xllamacpp.CommonParams()
options.model.path = file
options.n_ctx = SLOTS * CONTEXT
options.n_parallel = SLOTS
options.hostnames = ["127.0.0.1"]
options.port = int(port)
options.endpoint_slots = True
# Threads of llama.cpp wait for each other actively, which takes minutes on busy cores.
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
options.warmup = False
server = xllamacpp.Server(options)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
