# SPDX-License-Identifier: Apache-2.0
"""The verdict: what the provider, Kafka and Postgres saw, against the plan."""

CONFLICT = "IDEMPOTENCY_CONFLICT"


def _is_conflict(outcome):
    return (outcome["status"] == "rejected"
            and outcome["error"]["code"] == CONFLICT)


def _own(action):
    """The outcomes of the action itself, conflicts left out."""
    return [out for out in action.outcomes if not _is_conflict(out)]


def each_has_one_outcome(run):
    for action in run.actions:
        if len(_own(action)) != 1:
            yield f"{action.key}: {len(_own(action))} outcomes"
    for outcome in run.watcher.strangers:
        yield f"{outcome['id']}: nobody asked for it"


def each_ends_as_planned(run):
    for action in run.actions:
        for outcome in _own(action):
            if outcome["status"] != action.kind.status:
                yield f"{action.key}: {outcome['status']}"
            if outcome["attempts"] < action.kind.fewest_calls:
                yield f"{action.key}: {outcome['attempts']} calls"


def repeats_are_one_action(run):
    for action in run.of_kind("repeat"):
        if action.door == "http" and (
                action.again_status != 200 or action.again_id != action.id):
            yield f"{action.key}: {action.again_status} {action.again_id}"
        if len(action.outcomes) != 1:
            yield f"{action.key}: {len(action.outcomes)} outcomes"


def conflicts_are_refused(run):
    for action in run.of_kind("conflict"):
        refused = [out for out in action.outcomes if _is_conflict(out)]
        if action.door == "http" and (action.again_status != 422 or refused):
            yield f"{action.key}: {action.again_status}"
        if action.door == "kafka" and len(refused) != 1:
            yield f"{action.key}: {len(refused)} refusals"


def no_effect_twice(run):
    seen = {}
    for effect in run.double.effects():
        seen[effect["path"]] = seen.get(effect["path"], 0) + effect["applied"]
    for path, applied in seen.items():
        if applied > 1:
            yield f"{path}: {applied} times"
    for action in run.actions:
        if action.kind.status == "succeeded" and not seen.get(action.path):
            yield f"{action.path}: succeeded without effect"


def unsafe_starts_at_most_once(run):
    for action in run.of_kind("killed"):
        calls = len(run.requests.get(action.path, ()))
        if calls != 1:
            yield f"{action.key}: {calls} calls"


def no_retry_early(run):
    asked = 0
    for path, requests in run.requests.items():
        for before, after in zip(requests, requests[1:]):
            allowed = before.get("retry_at_us") or 0
            asked += allowed > 0
            if after["arrival_us"] < allowed:
                early = (allowed - after["arrival_us"]) / 1000
                yield f"{path}: {early:.1f} ms early"
    wanted = sum(action.kind.name.startswith("limit") for action in
                 run.actions)
    if asked < wanted:
        yield f"{asked} retries had a Retry-After to keep, not {wanted}"


def nothing_before_its_time(run):
    for action in run.of_kind("later"):
        for request in run.requests.get(action.path, ()):
            if request["arrival_us"] < action.not_before.timestamp() * 1e6:
                yield f"{action.key}: before its not_before"
    for action in run.of_kind("late"):
        if run.requests.get(action.path):
            yield f"{action.key}: called after its deadline"


def refusals_are_final(run):
    for action in run.of_kind("bad"):
        calls = len(run.requests.get(action.path, ()))
        if calls != 1:
            yield f"{action.key}: {calls} calls"


def forged_webhooks_are_refused(run):
    for one in run.deliveries:
        refused = [answer for answer in one.answers if answer[0] == 401]
        if len(refused) != 1:
            yield f"{one.key}: {one.answers}"


def webhooks_are_one_action(run):
    """Repeated, also by a sender that got no answer: one id, one outcome, one
    call that had an effect."""
    for one in run.deliveries:
        ended = [out["status"] for out in one.outcomes]
        if ended != ["succeeded"] or {out["id"] for out in one.outcomes} != (
                one.ids):
            yield f"{one.key}: {ended} {one.ids}"
        taken = [word for status, word in one.answers if status == 200]
        if len(taken) != 3 or (None, "no answer") not in one.answers:
            yield f"{one.key}: {one.answers}"
        calls = len(run.requests.get(one.path, ()))
        if calls != 1:
            yield f"{one.key}: {calls} calls"


def postgres_agrees(run):
    for tenant in {action.tenant for action in run.actions}:
        listed = sorted((row["id"], row["status"]) for row in
                        run.fleet.list_outcomes(tenant))
        seen = sorted((out["id"], out["status"]) for action in run.actions
                      if action.tenant == tenant for out in action.outcomes)
        if listed != seen:
            yield f"{tenant}: {len(listed)} rows, {len(seen)} on Kafka"


CHECKS = (
    ("each request has exactly one outcome", each_has_one_outcome),
    ("each ends as its kind must", each_ends_as_planned),
    ("a repeated key is the same action", repeats_are_one_action),
    ("a key with another payload is refused", conflicts_are_refused),
    ("no effect happened twice at the provider", no_effect_twice),
    ("an unsafe call started once, though its worker was killed",
     unsafe_starts_at_most_once),
    ("no retry came earlier than Retry-After allows", no_retry_early),
    ("nothing ran before its not_before or after its deadline",
     nothing_before_its_time),
    ("a refusal (400) was not tried again", refusals_are_final),
    ("a forged webhook is refused", forged_webhooks_are_refused),
    ("a webhook is one action, repeated or not, its producer killed",
     webhooks_are_one_action),
    ("Postgres and Kafka tell the same", postgres_agrees),
)


def print_table(run):
    """One line a kind."""
    print(f"\n{'kind':12}{'what the provider or caller does':45}"
          f"{'actions':>8}{'calls':>6}  outcomes")
    names = dict.fromkeys(action.kind.name for action in run.actions)
    for name in names:
        actions = run.of_kind(name)
        calls = sum(len(run.requests.get(action.path, ()))
                    for action in actions)
        counts = {}
        for action in actions:
            for out in action.outcomes:
                counts[out["status"]] = counts.get(out["status"], 0) + 1
        said = ", ".join(f"{count} {status}"
                         for status, count in sorted(counts.items()))
        print(f"{name:12}{actions[0].kind.what:45}{len(actions):8}"
              f"{calls:6}  {said}")
    for one in run.deliveries:
        calls = len(run.requests.get(one.path, ()))
        said = ", ".join(f"1 {out['status']}" for out in one.outcomes)
        print(f"{one.kind.name:12}{'webhook, forged and repeated':45}{1:8}"
              f"{calls:6}  {said}")


def judge(run):
    """Prints a line a check and the closing line; True if all passed."""
    passed = 0
    print()
    for what, check in CHECKS:
        faults = list(check(run))
        passed += not faults
        print(f"{'FAIL' if faults else 'PASS'}  {what}")
        for fault in faults[:5]:
            print(f"      {fault}")
    failed = len(CHECKS) - passed
    print(f"\n{passed} passed, {failed} failed", flush=True)
    return failed == 0
