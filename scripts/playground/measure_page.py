"""Measure how long the playground takes in Chromium, from a warm cache, and how long a key takes.

    python scripts/playground/measure_page.py [--openings N]

Each opening is a new process of the browser, with the profile of the one before. It ends when the
tokens of the prompt are shown. A key changes the last of 50 turns; its time is that of the longest
frame until the tokens have followed. Needs ``make docs``, ``make playground``, and Chromium.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import BrowserContext, Locator, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from support.inspector_page import CHROMIUM_ARGUMENTS, chromium_program
from support.page_visitor import fragment
from support.playground import built_playground, file_server

KEY = """async text => {
  const before = document.activeElement.value.length;
  document.execCommand("insertText", false, text);
  if (document.activeElement.value.length !== before + 1) throw new Error("nothing was typed");
  let last = performance.now();
  let longest = 0;
  for (const end = last + 500; last < end; ) {
    const now = await new Promise(done => requestAnimationFrame(() => done(performance.now())));
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
}"""  # half a second: the tokens follow after a pause, and are drawn in this time
WORDS = "The quick brown fox jumps over the lazy dog near the river while it rains in Tokyo. "


def conversation(turns: int) -> dict[str, object]:
    """A conversation of `turns` questions and answers, in the library's JSON."""
    messages = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Question {turn}: {WORDS * 2}"})
        messages.append(
            {"role": "assistant", "channel": "final", "content": f"Answer {turn}: {WORDS * 3}"}
        )
    return {"messages": messages}


def opened(context: BrowserContext, url: str) -> tuple[Page, float]:
    """Open the playground; return its page and the seconds until tokens are shown."""
    page = context.new_page()
    begun = time.perf_counter()
    page.goto(url)
    load = page.get_by_role("region", name="Python").get_by_role("button")
    tokens(page).or_(load).first.wait_for(timeout=300_000)
    if load.count():
        load.click()
    tokens(page).first.wait_for(timeout=300_000)
    return page, time.perf_counter() - begun


def tokens(page: Page) -> Locator:
    """The tokens of the prompt that are shown."""
    return page.get_by_role("listbox", name="Tokens of the prompt").locator(".token")


def key_times(page: Page, url: str) -> list[float]:
    """Type into the last answer of 50 turns; return the longest frame after each key, in ms."""
    page.goto("about:blank")
    page.goto(f"{url}{fragment('conversation', source=conversation(50), form='harmony')}")
    tokens(page).first.wait_for(timeout=300_000)
    page.get_by_role("textbox", name="Text of message 99").focus()
    times = []
    for _ in range(30):
        times.append(page.evaluate(KEY, "x"))
    return times


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openings", type=int, default=6)
    openings = parser.parse_args().openings
    with (
        file_server(built_playground()) as server,
        tempfile.TemporaryDirectory() as profile,
        sync_playwright() as driver,
    ):
        url = f"{server.url}playground/"
        times = []
        for opening in range(openings + 1):
            context = driver.chromium.launch_persistent_context(
                profile, executable_path=chromium_program(), args=CHROMIUM_ARGUMENTS
            )
            page, seconds = opened(context, url)
            if opening == openings:
                keys = key_times(page, url)
            times.append(seconds)
            context.close()
    first, *warm = times
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    print(f"first opening, with an empty cache: {first:.1f} s")
    print(f"from a warm cache: {', '.join(f'{seconds:.1f}' for seconds in warm)} s")
    median = statistics.median(keys)
    print(
        f"longest frame after a key, 50 turns: median {median:.0f} ms, slowest {max(keys):.0f} ms"
    )


if __name__ == "__main__":
    main()
