# SPDX-License-Identifier: Apache-2.0
"""The producer's HTTP API as one tenant sees it, and connectors to call."""

import json

import httpx

TIMEOUT_S = 60


def add_connector(fleet, name, actions, base_url="http://127.0.0.1:9",
                  version="1.0.0", **more):
    """Registers a manifest; returns what the command printed."""
    manifest = {"manifest": 1, "name": name, "version": version,
                "base_url": base_url, "actions": actions, **more}
    return fleet.ctl("connector", "add", "-", "--json",
                     stdin=json.dumps(manifest))


def echo_action(effect="natural", **more):
    """An action that sends its payload as it is."""
    return {"idempotency": effect, "timeout_ms": 5000,
            "request": {"method": "POST", "path": "/echo",
                        "json": "{{payload}}"}, **more}


def new_key(fleet, tenant):
    """(id, key) of a new API key."""
    said = fleet.ctl("key", "add", "--tenant", tenant, "--json").stdout
    made = json.loads(said.splitlines()[0])
    return made["id"], made["key"]


class Api:
    """Calls one producer with one key."""

    def __init__(self, url, key=None):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # Plain HTTP: reading the CA bundle would take longer than a test.
        self.client = httpx.Client(base_url=url, headers=headers,
                                   timeout=TIMEOUT_S, verify=False)

    def close(self):
        self.client.close()

    def post(self, body, **headers):
        """POST /v1/actions: a dict, or the bytes of the body."""
        if isinstance(body, dict):
            body = json.dumps(body)
        named = {name.replace("_", "-"): value
                 for name, value in headers.items()}
        return self.client.post("/v1/actions", content=body, headers={
            "Content-Type": "application/json", **named})

    def get(self, action_id, wait=None):
        query = {} if wait is None else {"wait": wait}
        return self.client.get(f"/v1/actions/{action_id}", params=query)


def check_problem(answer, status, code, pointer=None):
    """An RFC 9457 problem with this status, code and pointer."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code, problem
    assert problem.get("pointer") == pointer, problem
    assert problem["title"] and problem["detail"]
    return problem
