# SPDX-License-Identifier: Apache-2.0
"""When schedules fire as clocks change: SCH-07 on a fleet whose database is
told what time it is, and cron lines against a model that walks the minutes."""

import datetime
import json
import random
import zoneinfo

import pytest

from lib import flow
from lib.api import add_connector
from lib.wait import wait_for

UTC = datetime.timezone.utc
MINUTE = datetime.timedelta(minutes=1)


def instant(seconds):
    return datetime.datetime.fromtimestamp(seconds, UTC)


def ticks(house, *words):
    said = house.ctl("schedule", "next", "--json", *words).stdout
    return [datetime.datetime.fromisoformat(
        json.loads(line)["tick"].replace("Z", "+00:00"))
        for line in said.splitlines()]


@pytest.fixture(scope="module")
def house(fleets):
    """Two schedulers, and nobody who acts: what counts is on Kafka. Its
    clock is this file's, so no other test shares it."""
    made = fleets(producers=0, workers=0, schedulers=2)
    add_connector(made, "clock", {"tick": flow.action("keyed")})
    return made


def set_clock(house, seconds):
    """From now on the database's clock goes on from there."""
    house.sql("create or replace function fleet_now() returns timestamptz"
              " language sql stable parallel safe return statement_timestamp()"
              f" + (timestamptz 'epoch' + interval '{seconds} s'"
              f" - timestamptz '{datetime.datetime.now(UTC).isoformat()}')")
    house.sql("select ensure_partitions()")  # the ledger's, of its months


def fired(house, name):
    """Instants of what a schedule has put onto `actions`, each once."""
    found = [record.json()["scheduled"]
             for record in house.kafka.read_all("actions", committed=False)]
    return sorted({datetime.datetime.fromisoformat(
        one["tick"].replace("Z", "+00:00"))
        for one in found if one["name"] == name})


SPRING = [1806111000, 1806195600, 1806280200]
AUTUMN = [1824856200, 1824942600, 1825032600]


@pytest.mark.parametrize("name, expected", [
    ("spring", SPRING), ("autumn", AUTUMN)])
def test_sch_07_daylight_saving(house, tenant, name, expected):
    """A day a step, over the change of Berlin's clocks."""
    set_clock(house, expected[0] - 3600)
    house.ctl("schedule", "add", name, "--tenant", tenant, "--connector",
              "clock", "--action", "tick", "--cron", "30 2 * * *", "--zone",
              "Europe/Berlin")
    for number, at in enumerate(expected):
        # Half an hour later as well: 02:30 comes a second time in autumn.
        for after in (1, 3601):
            set_clock(house, at + after)
            wait_for(lambda most=number: house.sql(
                "select extract(epoch from last_at)::int8, next_at > fleet_now()"
                " from schedule where name = %s", (name,)) == [
                    (expected[most], True)], f"the tick at {at}")
    wait_for(lambda: fired(house, name) == [instant(at) for at in expected],
             "all of them on Kafka", every=0.2)
    house.ctl("schedule", "pause", name, "--tenant", tenant)
    assert house.sql("select fired_count, missed_count from schedule"
                     " where name = %s", (name,)) == [(len(expected), 0)]


# -- against a model ----------------------------------------------------------------


class Cron:
    """Sets of the five fields, made at random, and their text."""

    def __init__(self, dice):
        self.minutes, minute = pick(dice, 0, 59, 0.2)
        self.hours, hour = pick(dice, 0, 5, 0.3)
        if hour == "*":
            self.hours = set(range(24))
        self.days, day = pick(dice, 1, 31, 0.8)
        self.weekdays, weekday = pick(dice, 0, 6, 0.8)
        self.text = f"{minute} {hour} {day} * {weekday}"
        self.is_wildcard = "*" in (minute, hour)
        self.is_any_day = "*" in (day, weekday)

    def shows(self, local):
        """Whether a clock that shows this minute is one of the line's."""
        is_day = local.day in self.days
        is_weekday = local.isoweekday() % 7 in self.weekdays
        return (local.minute in self.minutes and local.hour in self.hours and
                (is_day and is_weekday if self.is_any_day
                 else is_day or is_weekday))


def pick(dice, low, high, star):
    if dice.random() < star:
        return set(range(low, high + 1)), "*"
    values = set(dice.sample(range(low, high + 1),
                             dice.randint(1, min(4, high - low))))
    return values, ",".join(map(str, sorted(values)))


def model(cron, zone, start, end):
    """Ticks after start and not after end, by looking at every minute."""
    found = []
    at = start
    before = at.astimezone(zone)
    while at < end:
        at += MINUTE
        local = at.astimezone(zone)
        skipped = []
        shown = before.replace(tzinfo=None) + MINUTE
        while not cron.is_wildcard and shown < local.replace(tzinfo=None):
            skipped.append(shown)
            shown += MINUTE
        is_shown = cron.shows(local) and (cron.is_wildcard or not local.fold)
        if is_shown or any(cron.shows(one) for one in skipped):
            found.append(at)
        before = local
    return found


CHANGES = [
    ("Europe/Berlin", "2027-03-28"), ("Europe/Berlin", "2027-10-31"),
    ("America/New_York", "2028-03-12"), ("America/New_York", "2028-11-05"),
    ("Australia/Lord_Howe", "2027-04-04"), ("Australia/Lord_Howe",
                                            "2027-10-03"),
    ("America/Havana", "2027-03-14"), ("America/Santiago", "2027-09-05"),
    ("Asia/Kathmandu", "2027-05-01"), ("Africa/Casablanca", "2027-02-07"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name, day", CHANGES)
def test_cron_is_as_the_model_says(house, name, day, seed):
    dice = random.Random(f"{name} {day} {seed}")
    zone = zoneinfo.ZoneInfo(name)
    start = datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00") - (
        datetime.timedelta(days=1))
    end = start + datetime.timedelta(days=3)
    cron = Cron(dice)
    expected = model(cron, zone, start, end)
    got = ticks(house, "--cron", cron.text, "--zone", name, "--after",
                start.isoformat(), "--count", str(min(1000, len(expected) + 1)))
    assert [at for at in got if at <= end] == expected[:1000], cron.text
