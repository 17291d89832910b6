// A hundred thousand calls: only those in view are in the document, and all can be reached and found. The server is replaced, because
// no journal has as many.

import assert from "node:assert/strict";
import { checkAccessibility, withPage } from "./page.mjs";

const CALLS = 100_000;

function callOf(id) {
  const input = { command: `echo ${id}` };
  const time = 1_700_000_000_000 + id * 1000;
  return { id, time, session: "many", family: "agent", tool: "shell", input, input_bytes: 20, outcome: "ok", duration_ms: id % 5000, result_bytes: 9 };
}

let newest = CALLS;

function pageOf(query) {
  const since = query.get("since");
  const limit = Number(query.get("limit"));
  const first = since === null ? newest - limit + 1 : Number(since) + 1;
  const count = Math.max(0, Math.min(limit, newest - first + 1));
  const calls = Array.from({ length: count }, (_, index) => callOf(first + index));
  return { calls, next: calls.at(-1)?.id ?? Number(since) };
}

await withPage({}, async (page) => {
  await page.route("**/sessions/many/log?*", (route) => route.fulfill({ json: pageOf(new URL(route.request().url()).searchParams) }));
  await page.evaluate(() => (location.hash = "#/many/calls"));
  await page.getByText("100,000 calls", { exact: true }).waitFor();
  const rows = page.locator(".row");
  const selected = page.locator(".row[aria-selected=true]");
  assert.ok((await rows.count()) < 100);
  await checkAccessibility(page, "many calls");

  await page.getByRole("listbox").focus();
  await page.keyboard.press("End");
  await selected.filter({ hasText: "echo 1" }).waitFor();
  assert.ok((await rows.count()) < 100);
  assert.equal(await selected.getAttribute("aria-posinset"), String(CALLS));

  // New calls do not move what someone reads.
  const before = await selected.boundingBox();
  newest += 3;
  await page.getByText("100,003 calls", { exact: true }).waitFor();
  const after = await selected.boundingBox();
  assert.deepEqual(after, before);

  await page.getByRole("searchbox").fill("echo 54321");
  await page.getByText("1 of 100,003 calls").waitFor();
  assert.equal(await rows.count(), 1);
});
