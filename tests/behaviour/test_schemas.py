# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas: sound themselves, and true for every example.

The same examples go through the C code in tests/unit/test_examples.c, so that
schema and program cannot drift apart unseen."""

import copy
import json
import pathlib

import jsonschema
import pytest
from referencing import Registry, Resource

ROOT = pathlib.Path(__file__).resolve().parents[2]
JSON = ROOT / "schema/json"
SCHEMAS = {path.name.split(".")[0]: json.loads(path.read_text())
           for path in sorted(JSON.glob("*.schema.json"))}
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema))
    for schema in SCHEMAS.values())
KINDS = {
    "request": SCHEMAS["request"],
    "http": {"$ref": SCHEMAS["request"]["$id"] + "#/$defs/http"},
    "outcome": SCHEMAS["outcome"],
    "manifest": SCHEMAS["manifest"],
    "webhook": SCHEMAS["webhook"],
    "resolution": SCHEMAS["resolution"],
    "mapping": SCHEMAS["mapping"],
    "replay": SCHEMAS["replay"],
    "replay_request": {"$ref": SCHEMAS["replay"]["$id"] + "#/$defs/request"},
    "schedule": SCHEMAS["schedule"],
}
EXAMPLES = sorted(JSON.glob("examples/*/*.json"))


def validator(kind):
    return jsonschema.Draft202012Validator(KINDS[kind], registry=REGISTRY)


def example(name):
    return json.loads((JSON / "examples" / name).read_text())


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_is_itself_valid(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_fits_its_schema(path):
    validator(path.parent.name).validate(json.loads(path.read_text()))


def test_demo_connector_fits_the_schema():
    validator("manifest").validate(
        json.loads((ROOT / "tests/demo/connector.json").read_text()))


def test_every_kind_has_examples():
    assert {path.parent.name for path in EXAMPLES} == set(KINDS)


def changed(document, pointer, value):
    """A copy with the value at pointer set, or removed if it is `...`."""
    document = copy.deepcopy(document)
    *way, last = pointer.split("/")[1:]
    target = document
    for step in way:
        target = target[step]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return document


ACTION = "/actions/charge.create"
WRONG = [
    ("schedule", "/name", ...),
    ("schedule", "/cron", ...),
    ("schedule", "/every_s", 60),
    ("schedule", "/start", "2026-12-01T00:00:00Z"),
    ("schedule", "/misfire", "never"),
    ("schedule", "/request/deadline", "2026-12-01T00:00:00Z"),
    ("schedule", "/zone", "../UTC"),
    ("schedule", "/more", 1),
    ("request", "/spec", "actionist/2"),
    ("request", "/spec", ...),
    ("request", "/tenant", ...),
    ("request", "/tenant", "Acme"),
    ("request", "/connector", "../x"),
    ("request", "/idempotency_key", ""),
    ("request", "/idempotency_key", "k "),
    ("request", "/idempotency_key", "k" * 256),
    ("request", "/idempotency_key", None),
    ("request", "/not_before", "2026-12-01T08:00:00"),
    ("request", "/priority", 10),
    ("request", "/max_attempts", 0),
    ("request", "/dry_run", True),
    ("outcome", "/status", "done"),
    ("outcome", "/error", {"code": "X", "class": "permanent",
                           "message": ""}),
    ("outcome", "/id", "1"),
    ("outcome", "/usage", ...),
    ("outcome", "/result_truncated", True),
    ("resolution", "/status", "indeterminate"),
    ("resolution", "/event", ...),
    ("resolution", "/note", ""),
    ("manifest", "/auth", {}),
    ("manifest", "/base_url", "https://a@b.example"),
    ("manifest", "/base_url", "https://a.example?x"),
    ("manifest", "/actions", {}),
    ("manifest", ACTION + "/idempotency", ...),
    ("manifest", ACTION + "/idempotency", "unsafe"),
    ("manifest", ACTION + "/runtime", "js"),
    ("manifest", ACTION + "/runtime", "echo"),
    ("manifest", ACTION + "/request", ...),
    ("manifest", ACTION + "/retry_on", [200]),
    ("manifest", ACTION + "/payload/pattern", "x"),
    ("manifest", ACTION + "/request/headers/Host", "x"),
    ("manifest", ACTION + "/request/headers/X A", "x"),
    ("manifest", ACTION + "/request/body", "x"),
    ("manifest", ACTION + "/request/method", "GET"),
    ("manifest", ACTION + "/request/path", "/a?b=c"),
    ("manifest", ACTION + "/request/query", {"a": [1]}),
    ("mapping", "/connector", "Crm"),
    ("mapping", "/action", ...),
    ("mapping", "/types", []),
    ("mapping", "/type", ""),
    ("mapping", "/key", "{{body.id}}"),
]
WHOLE = {"request": "request/full.json", "outcome": "outcome/succeeded.json",
         "manifest": "manifest/billing.json",
         "resolution": "resolution/succeeded.json",
         "mapping": "mapping/full.json",
         "schedule": "schedule/nightly.json"}


@pytest.mark.parametrize("kind,pointer,value", WRONG,
                         ids=lambda value: str(value)[:40])
def test_wrong_document_is_refused(kind, pointer, value):
    document = changed(example(WHOLE[kind]), pointer, value)
    with pytest.raises(jsonschema.ValidationError):
        validator(kind).validate(document)


def test_unknown_members_of_a_request_are_kept():
    validator("request").validate(
        changed(example("request/minimal.json"), "/later", [1]))
