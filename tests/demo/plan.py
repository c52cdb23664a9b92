# SPDX-License-Identifier: Apache-2.0
"""What the demo does: forty actions of twelve kinds, and how each must end."""

import dataclasses
import datetime
import uuid

KAFKA_ONLY = "initech"
TENANTS = ("acme", "globex", KAFKA_ONLY)
CONNECTOR = "demo"
WAIT_S = 3
NOT_BEFORE_S = 2


@dataclasses.dataclass
class Kind:
    """One way an action can go. `steps` is what the provider answers."""

    name: str
    what: str
    count: int
    status: str = "succeeded"
    steps: tuple = ({},)
    action: str = "charge.create"
    area: str = "charges"
    again: str = ""       # "repeat" or "conflict": sent a second time
    kafka_only: bool = False
    fewest_calls: int = 1
    wave: int = 2         # sent before, at or after the worker's death


RETRY_AFTER = {"status": 429, "headers": [["Retry-After", str(WAIT_S)]]}
RETRY_DATE = {"status": 429, "retry_after_date_s": WAIT_S}

KINDS = (
    Kind("ok", "200", 5, wave=1),
    Kind("limit-s", f"429, Retry-After: {WAIT_S}, then 200", 3,
         steps=(RETRY_AFTER, {}), fewest_calls=2),
    Kind("limit-date", "429, Retry-After as a date, then 200", 3,
         steps=(RETRY_DATE, {}), fewest_calls=2),
    Kind("down", "503, then 200", 3, steps=({"status": 503}, {}),
         fewest_calls=2),
    Kind("bad", "400", 3, status="failed", steps=({"status": 400},)),
    Kind("slow", "slower than the time-out, then 200", 3,
         steps=({"delay_ms": 4000}, {}), action="charge.hasty",
         fewest_calls=2),
    Kind("reset", "connection reset, then 200", 3,
         steps=({"reset": "after_body"}, {}), fewest_calls=2),
    Kind("not-json", "200 with broken JSON", 3,
         steps=({"body": '{"id": "ch_1", '},)),
    Kind("repeat", "200; the same key again", 3, again="repeat"),
    Kind("conflict", "200; the same key, another payload", 3,
         again="conflict"),
    Kind("killed", "unsafe; worker killed mid-call", 2,
         status="indeterminate", steps=({"never": True},),
         action="payout.send", area="payouts", wave=1),
    Kind("later", f"not_before in {NOT_BEFORE_S} s, then 200", 3,
         wave=3),
    Kind("late", "deadline already past", 3, status="expired",
         kafka_only=True, fewest_calls=0),
)


@dataclasses.dataclass
class Action:
    """One planned action and, later, what was seen of it."""

    kind: Kind
    tenant: str
    door: str
    key: str
    request: dict
    not_before: datetime.datetime | None = None
    id: str | None = None
    again_status: int | None = None   # HTTP status of the second sending
    again_id: str | None = None
    outcomes: list = dataclasses.field(default_factory=list)

    @property
    def path(self):
        """Where the provider sees it; its alone."""
        return f"/{self.kind.area}/{self.kind.name}/{self.key}"

    @property
    def expected_outcomes(self):
        """A conflict through Kafka has an outcome of its own: rejected."""
        both = self.kind.again == "conflict" and self.door == "kafka"
        return 2 if both else 1

    def other_request(self):
        """The second sending: the same, or with another payload."""
        if self.kind.again == "repeat":
            return self.request
        payload = {**self.request["payload"], "amount": "99.99"}
        return {**self.request, "payload": payload}


def make_actions():
    """All actions, tenants and doors taking turns."""
    run = uuid.uuid4().hex[:6]
    actions = []
    for kind in KINDS:
        for number in range(kind.count):
            tenant = TENANTS[number % len(TENANTS)]
            by_http = tenant != KAFKA_ONLY and not kind.kafka_only
            key = f"{kind.name}-{run}-{number + 1}"
            actions.append(Action(
                kind, tenant, "http" if by_http else "kafka", key, {
                    "spec": "actionist/1", "tenant": tenant,
                    "connector": CONNECTOR, "action": kind.action,
                    "idempotency_key": key,
                    "payload": {"kind": kind.name, "order": key,
                                "amount": f"{number + 1}2.50"}}))
    return actions


def set_times(action):
    """Times count from the moment of sending."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if action.kind.name == "later":
        action.not_before = now + datetime.timedelta(seconds=NOT_BEFORE_S)
        action.request["not_before"] = action.not_before.isoformat()
    if action.kind.name == "late":
        past = now - datetime.timedelta(minutes=1)
        action.request["deadline"] = past.isoformat()


def scripts():
    """What the provider double plays, one script a kind."""
    return [{"path": f"/{kind.area}/{kind.name}/*", "method": "POST",
             "steps": list(kind.steps),
             **({} if kind.area == "payouts"
                else {"dedup_header": "Idempotency-Key"})}
            for kind in KINDS]
