# Every target sets up what it needs first; nothing is to be prepared by hand.
.PHONY: help demo test merge test-all soak cluster spark airflow stores clouds hadoop faults mutants docs check check-image bench conformance fuzz soundness run clean
.DEFAULT_GOAL := help

BIN := .venv/bin
# For two cores: many tests of make merge wait for servers and for other programs.
WORKERS ?= 5
PARALLEL = -n $(WORKERS) --dist worksteal --durations=20
REQUESTS ?= 20000
SEED ?= 1
EVERY ?= 11
PAIRS ?= 20000
VERSIONS ?= 3.5.0 3.5.9 4.0.5 4.1.4 4.2.1

help:  ## show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile

demo:  ## load real definitions, run the pipeline over real events, then live from a Kafka, show the result
	@tools/setup demo
	$(BIN)/signalbook demo --folder var/demo

test:  ## run the tests that every change has to pass
	@tools/setup test
	$(BIN)/pytest $(PARALLEL) -m "not merge and not soak" $(TESTS)

merge:  ## run what else a merge has to pass: PostgreSQL everywhere, kills, other people's programs, more generated examples
	@tools/setup test
	$(BIN)/pytest $(PARALLEL) -m "(merge or hypothesis) and not soak" --hypothesis-profile=thorough $(TESTS)

test-all:  ## run what make test and make merge run, each test once
	@tools/setup test
	$(BIN)/pytest $(PARALLEL) -m "not soak" --hypothesis-profile=thorough $(TESTS)

soak:  ## run what takes hours: kills in all stores, new generated examples, random requests and pairs of schemas
	@tools/setup test
	$(BIN)/pytest $(PARALLEL) -m "soak or hypothesis" --hypothesis-profile=explore $(TESTS)
	$(MAKE) --no-print-directory fuzz REQUESTS=300000 SEED=$$(date +%s)
	$(MAKE) --no-print-directory soundness PAIRS=200000
	$(MAKE) --no-print-directory faults stores

cluster:  ## run the pipeline on a Spark cluster of two workers on this machine
	@tools/setup test
	$(BIN)/pytest -q --cluster tests/pipeline/test_cluster.py

spark:  ## hold DataFrames to definitions on other versions of Spark; VERSIONS says which
	@tools/setup test
	@tools/spark-versions $(VERSIONS)

airflow:  ## run the example for Airflow, without its servers
	@tools/setup test
	@tools/airflow

stores:  ## kill drivers with their requests to S3 servers, each EVERY-th of them; EVERY=1 takes hours
	@tools/setup test
	$(BIN)/pytest -q --every-request $(EVERY) tests/pipeline/test_commit_stores.py \
	  tests/pipeline/sources/test_spool_stores.py

clouds:  ## all of the pipeline's commands in Azurite, by the API of Google's stores, and in HDFS
	@tools/setup clouds
	$(BIN)/pytest -q -k "azurite or google or hdfs" tests/pipeline/places tests/pipeline/test_locks.py \
	  tests/pipeline/test_journal_stores.py tests/pipeline/commands/test_stores.py \
	  tests/pipeline/commands/test_credentials.py

hadoop:  ## have Spark read tables and events from an S3 server by Hadoop's S3A
	@tools/setup test
	@tools/hadoop

faults:  ## kill servers and PostgreSQL 200 times under load, and disturb the network between them
	@tools/setup faults
	$(BIN)/python -m tests.faults $(FAULTS)

mutants:  ## plant FAULTS of 120 faults by SEED, and see which tests find them; AGAINST names an earlier list; NEAR=1 is fast
	@tools/setup test
	$(BIN)/python tools/mutants --workers $(WORKERS) --seed $(SEED) $(FAULTS:%=--faults %) $(AGAINST:%=--against %) $(if $(NEAR),--near)

docs:  ## build the documentation site, var/docs/site; broken links fail
	@tools/setup docs
	$(BIN)/python tools/docs

check:  ## linter, formatter, types, and who may import whom
	@tools/setup test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_layers.py
	@tools/check-native

check-image:  ## replay deploy/Dockerfile without Docker
	@tools/setup run
	$(BIN)/python tools/check-image

bench:  ## measure again every figure the documentation quotes
	@tools/setup bench
	$(BIN)/python -m benchmarks

conformance:  ## hold a fresh server to the specification, renew conformance/results.md
	@tools/setup test
	@tools/scoreboard

fuzz:  ## ask servers for anything, and see that nothing breaks; REQUESTS and SEED say how much and which
	@tools/setup test
	$(BIN)/python -m tests.fuzzing --requests $(REQUESTS) --seed $(SEED)

soundness:  ## compare random pairs of schemas of all formats, and prove verdicts and reasons by values; PAIRS says how many
	@tools/setup test
	$(BIN)/pytest -q -s --pairs $(PAIRS) -k test_verdicts_are_sound_and_reasons_true tests/formats

run:  ## a server on http://127.0.0.1:8080 with its data in signalbook.db
	@tools/setup run
	$(BIN)/signalbook serve

clean:  ## remove what the other targets made
	rm -rf .venv var .mypy_cache .pytest_cache .ruff_cache .hypothesis
