"""Admission: connections of strangers, tokens, and answers to peers on the wrong path."""

import asyncio
import time

import trustme

import octopia
from benchmarks.chaos.actors import leave
from benchmarks.chaos.processes import octopia_says
from benchmarks.chaos.scenarios.fairness import AT, FAR, beside
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import GUESSES_MAX, GUESSING_S
from benchmarks.chaos.world import MAIN, Setup, World
from octopia.errors import OctopiaError

LET_IN_S_MAX = 3.0
LINK_BACK_S_MAX = 5.0
FILES_MAX = 256
# A broker that bounds its HTTP connections never runs out of files, however long one waits.
CROWD_S_MAX = 5.0
GUESSES = 600


async def _let_in(trial: Trial, count: int) -> tuple[int, float]:
    """The number of known clients that are admitted, each trying once, and the longest wait."""

    async def one(number: int) -> float | None:
        start = time.monotonic()
        client = octopia.connect(trial.world.url(AT), name=f"main/late-{number}", token=MAIN.token)
        try:
            async with asyncio.timeout(LET_IN_S_MAX):
                await client.open()
        except (OctopiaError, TimeoutError):
            return None
        took_s = time.monotonic() - start
        await leave(client)
        return took_s

    waits = [await one(number) for number in range(count)]
    known = [wait for wait in waits if wait is not None]
    return len(known), max(known, default=0.0)


async def door_connections(trial: Trial) -> None:
    """Strangers take every connection they can get; known clients and a neighbour must still get in."""

    async def attack() -> None:
        trial.attacker("idle", port=trial.world.ports[AT], count=200)
        await asyncio.sleep(1.5)
        inside, wait_s = await _let_in(trial, 12)
        trial.outcome.note(f"{inside} of 12 known clients let in, the last after {wait_s:.1f} s")
        trial.outcome.expect(inside == 12, f"{12 - inside} of 12 known clients were kept out")

    async def after() -> None:
        for proxy in trial.world.link(AT, FAR):
            proxy.reset()
        await _link_back(trial)

    await beside(trial, attack, after)


async def _link_back(trial: Trial) -> None:
    """How long a neighbour whose connection was reset is kept out."""
    start = trial.now
    await asyncio.sleep(0.2)
    while trial.now < start + 2 * LINK_BACK_S_MAX:
        state = await trial.world.health(FAR)
        if state and all(link["up"] and link.get("connected", True) for link in state["links"]):
            trial.outcome.recovery_s = trial.now - start
            trial.outcome.expect(
                trial.outcome.recovery_s <= LINK_BACK_S_MAX,
                f"a neighbour was kept out for {trial.outcome.recovery_s:.1f} s",
            )
            return
        await asyncio.sleep(0.05)
    trial.outcome.never_recovered = True


async def door_http(trial: Trial) -> None:
    """Connections to the HTTP port must not take the files that clients need."""

    async def attack() -> None:
        host, _, port = trial.world.http[AT].rpartition(":")
        trial.attacker("idle", host=host, port=int(port), count=FILES_MAX + 50)
        start, files = trial.now, 0
        while trial.now < start + CROWD_S_MAX and files < FILES_MAX:
            await asyncio.sleep(0.1)
            files = max(files, trial.world.files(AT))
        trial.outcome.note(f"{files} of {FILES_MAX} files taken")
        inside, wait_s = await _let_in(trial, 12)
        trial.outcome.note(f"{inside} of 12 known clients let in, the last after {wait_s:.1f} s")
        trial.outcome.expect(inside == 12, f"{12 - inside} of 12 known clients were kept out")

    await beside(trial, attack)


async def token_guessing(trial: Trial) -> None:
    """Wrong tokens must be slowed down; clients with the right one, from the same machine, must not."""

    async def attack() -> None:
        guesser = trial.attacker("guess", port=trial.world.ports[AT], count=GUESSES, threads=8)
        await trial.said(guesser)
        start, said = trial.now, {"answered": 0, "seconds": 0.0}
        inside, wait_s = await _let_in(trial, 3)
        while trial.now < start + GUESSING_S and not said.get("done"):
            said = await trial.said(guesser, GUESSING_S) or {"done": True}
        answered, seconds = said.get("answered", 0), said.get("seconds", 0.0)
        trial.outcome.note(
            f"{answered} of {GUESSES} wrong tokens answered in {seconds:.1f} s; "
            f"{inside} of 3 right ones let in within {wait_s:.1f} s"
        )
        trial.outcome.expect(answered <= GUESSES_MAX, "wrong tokens cost nothing")
        trial.outcome.expect(inside == 3 and wait_s < 2.0, "right tokens are slowed down, too")

    await beside(trial, attack)


async def tls_texts(trial: Trial) -> None:
    """A person who comes with TLS to a plain port, or the other way round, or without the authority, is told so."""
    folder = trial.world.folder
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    host = trial.world.host
    issued = authority.issue_cert(host, common_name="(a,0)")
    issued.cert_chain_pems[0].write_to_path(str(folder / "a-0.pem"))
    issued.private_key_pem.write_to_path(str(folder / "a-0.key"))
    lines = 'certificate = "{broker}.pem"\nkey = "{broker}.key"\nauthorities = "ca.pem"\n'
    plain = trial.world
    await plain.start()
    await _told(trial, "TLS to a plain port", plain.url("a,0").replace("octopia://", "octopias://"), ("TLS",))
    await plain.close()
    trial.world = World(Setup(1, 1, link_token="", tls=lines), folder)
    await trial.world.start()
    url = trial.world.url("a,0")
    await _told(trial, "no authority", url.replace("octopia://", "octopias://"), ("certificate", "authorit", "--ca"))
    await _told(trial, "plain to a TLS port", url, ("TLS", "octopias"))


async def _told(trial: Trial, what: str, url: str, words: tuple[str, ...]) -> None:
    client = octopia.connect(url, name="main", token=MAIN.token)
    try:
        await client.open()
        text = "let in"
    except OctopiaError as error:
        text = str(error).replace(trial.world.host, "HOST")
    await leave(client)
    trial.outcome.note(f"{what}: {text!r}")
    helps = any(word.lower() in text.lower() for word in words) and "not permitted" not in text
    trial.outcome.expect(helps, f"{what}: the error does not say what is wrong")


async def status_foreign(trial: Trial) -> None:
    """`status` must not take another overlay's broker for one of the file's."""
    foreign = trial.world.folder / "foreign.toml"
    text = trial.world.file.read_text(encoding="utf-8")
    foreign.write_text(text.replace("[brokers]", '[routing]\nname = "snr"\n[brokers]'), encoding="utf-8")
    code, said = await asyncio.to_thread(octopia_says, "status", str(foreign))
    if code:
        trial.outcome.refused(" ".join(said.split())[-160:].replace(str(trial.world.folder), "."))
    else:
        trial.outcome.accepted("a broker of another overlay is shown as if it were the file's")


PROXIED = ((AT, FAR),)
SCENARIOS = [
    Scenario(
        "door-connections",
        "strangers take connections up to connections_max",
        door_connections,
        Setup(2, 1, proxied=PROXIED, limits=(("connections_max", 60),)),
    ),
    Scenario(
        "door-http", "idle connections to the HTTP port take all files", door_http, Setup(2, 1, files_max=FILES_MAX)
    ),
    Scenario("token-guessing", "600 wrong tokens", token_guessing, Setup(2, 1)),
    Scenario("tls-texts", "TLS to a plain port, no authority, plain to a TLS port", tls_texts, None),
    Scenario("status-foreign", "status FILE against another overlay's broker", status_foreign, Setup(1, 1)),
]
