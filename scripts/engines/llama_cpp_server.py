"""The server of llama.cpp in the wheel ``xllamacpp``: ``llama_cpp_server.py FILE PORT [SLOTS]``."""

from __future__ import annotations

import signal
import sys

import xllamacpp  # type: ignore[import-not-found,unused-ignore]

CONTEXT = 4096

file, port, *more = sys.argv[1:]
slots = int(more[0]) if more else 4
options = xllamacpp.CommonParams()
options.model.path = file
options.n_ctx = slots * CONTEXT
options.n_parallel = slots
options.hostnames = ["127.0.0.1"]
options.port = int(port)
options.endpoint_slots = True
# Threads of llama.cpp wait for each other actively, which takes minutes on busy cores.
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
options.warmup = False
server = xllamacpp.Server(options)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
