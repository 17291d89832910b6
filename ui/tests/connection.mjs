// A connection that is lost is shown, and what was missed appears: no call is missing, and none is there twice.

import assert from "node:assert/strict";
import { call, withPage } from "./page.mjs";

const numbers = (from, to) => Array.from({ length: to - from }, (_, index) => from + index);

async function callAll(all) {
  for (const number of all) await call("shell", { command: `echo call ${number}` });
}

await callAll(numbers(0, 2));
await withPage({}, async (page, context) => {
  await page.getByRole("link", { name: "default", exact: true }).first().click();
  await page.getByText("2 calls", { exact: true }).waitFor();
  await context.setOffline(true);
  await page.getByText("Connection lost, trying again…").waitFor();
  await callAll(numbers(2, 6));
  assert.equal(await page.locator(".row").count(), 2);
  await context.setOffline(false);
  await page.getByText("● Live").waitFor();
  await page.getByText("6 calls", { exact: true }).waitFor();
  await callAll(numbers(6, 7));
  await page.getByText("7 calls", { exact: true }).waitFor();
  const shown = await page.locator(".row-summary").allInnerTexts();
  assert.deepEqual(shown, numbers(0, 7).reverse().map((number) => `echo call ${number}`));

  // Without the cookie, the page says what to do.
  await context.clearCookies();
  await page.getByRole("heading", { name: "Not signed in" }).waitFor();
});
