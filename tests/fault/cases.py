# SPDX-License-Identifier: Apache-2.0
"""The actions that are under way when a program is killed, what the provider
plays to each, and what may have become of it."""

import dataclasses
import json

CONNECTOR = "crash"
EFFECTS = ("natural", "keyed", "unsafe")
# "start" ends as success, but the program dies while it comes up.
ENDINGS = ("success", "retry", "permanent", "timeout", "start")
# These end as success too, but begin as a webhook: captured twice on its topic,
# or at the producer's door, whose sender repeats it until it is taken.
HOOKS = ("hook", "door")
# And this one as the tick of a schedule.
TICK = "tick"
# These have ended before: then a replay runs them again, or sends their outcome
# again.
ASKED = ("replay", "resend")
ENDINGS_OF = {"worker": (*ENDINGS, "hook", "replay"),
              "scheduler": (*ENDINGS, TICK, *ASKED), "keeper": ENDINGS,
              "spawn": ENDINGS, "producer": ("door",)}
STEPS = {
    "success": [{}],
    "retry": [{"status": 503, "headers": [["Retry-After", "1"]]}, {}],
    "permanent": [{"status": 422}],
    "timeout": [{"never": True}],
    "start": [{}],
    "hook": [{}],
    "door": [{}],
    "tick": [{}],
    "replay": [{"status": 429}, {}],
    "resend": [{}],
}
STATUS = {"success": "succeeded", "retry": "succeeded", "start": "succeeded",
          "hook": "succeeded", "door": "succeeded", "tick": "succeeded",
          "replay": "succeeded", "resend": "succeeded",
          "permanent": "failed", "timeout": "indeterminate"}
MOST_CALLS = {"timeout": 2, "replay": 1}
CALL_MS = 10000
SHORT_CALL_MS = 400
# Whose calls are counted: which program it belongs to.
ROLES = {"worker": "worker", "keeper": "worker", "spawn": "worker",
         "scheduler": "scheduler", "producer": "producer"}
CRASH_PROGRAM = {"worker": "actionist-worker", "keeper": "keeper",
                 "spawn": "spawn", "scheduler": "actionist-scheduler",
                 "producer": "actionist-producer"}


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    """One kind of action, with one of the programs to be killed."""
    role: str
    effect: str
    ending: str

    @property
    def is_asked(self):
        """Whether it is about a replay of what has ended."""
        return self.ending in ASKED

    @property
    def action(self):
        return f"{self.effect}-{self.ending}"

    def __str__(self):
        return f"{self.role} {self.effect} {self.ending}"


def all_cases(roles, endings):
    return [Case(role, effect, ending) for role in roles
            for effect in EFFECTS for ending in ENDINGS_OF[role]
            if ending in endings]


def manifest(double):
    """One action for each class and ending."""
    def action(effect, ending):
        is_slow = ending == "timeout"
        made = {"idempotency": effect,
                "timeout_ms": SHORT_CALL_MS if is_slow else CALL_MS,
                "retry": {"max_attempts": MOST_CALLS.get(ending, 50),
                          "base_ms": 50, "max_ms": 200},
                "request": {"method": "POST",
                            "path": f"/{ending}/{effect}/{{{{payload.key}}}}",
                            "json": "{{payload}}"}}
        if effect == "keyed":
            made["key"] = {"header": "Idempotency-Key", "retention_s": 86400}
        return made

    return json.dumps({
        "manifest": 1, "name": CONNECTOR, "version": "1.0.0",
        "base_url": double.url, "egress": [double.address],
        "actions": {f"{effect}-{ending}": action(effect, ending)
                    for effect in EFFECTS for ending in STEPS}})


def script(double):
    """What the provider plays; each action has a path of its own."""
    double.scripts([
        {"path": f"/{ending}/{effect}/*", "steps": STEPS[ending],
         **({"dedup_header": "Idempotency-Key"} if effect == "keyed" else {})}
        for effect in EFFECTS for ending in STEPS])


def check(case, out, effects, has_crashed):
    """The last outcome against what the provider saw. A replay has the key of
    the first one."""
    said = {name: out[name] for name in ("id", "status", "attempts", "error")}
    seen = f"it ended as {said}, the provider saw {effects}"
    allowed = {STATUS[case.ending]}
    if (has_crashed and case.effect == "unsafe"
            and case.role not in ("scheduler", "producer")):
        allowed.add("indeterminate")
    assert out["status"] in allowed, seen
    calls = sum(one["calls"] for one in effects)
    applied = sum(one["applied"] for one in effects)
    assert sum(one["mismatches"] for one in effects) == 0, seen
    if case.effect == "unsafe":
        # What was refused with a Retry-After was not carried out.
        refusals = 1 if case.ending in ("retry", "replay") else 0
        assert applied <= 1 and calls <= 1 + refusals, seen
    if case.effect == "keyed":
        first = out["replay_of"] or out["id"]
        assert {one["key"] for one in effects} == {first}, seen
        assert applied <= 1, seen
    if out["status"] == "succeeded":
        assert applied >= 1, seen
    elif out["status"] == "failed":
        assert applied == 0 and calls >= 1, seen
    else:
        assert out["error"]["class"] == "unknown", seen
