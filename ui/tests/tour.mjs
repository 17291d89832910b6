// A tour of the page, with real sandboxes: an empty page, calls as they end, files, processes, hosts, and the palette.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { call, checkAccessibility, given, koze, withPage } from "./page.mjs";

/** Writes a picture of one red pixel. */
const PICTURE =
  "echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC | base64 -d > red.png";

await withPage({}, async (page) => {
  await page.getByRole("heading", { name: "No sessions yet" }).waitFor();
  await checkAccessibility(page, "the empty page");

  await call("shell", { command: `${PICTURE}; mkdir data; printf 'city,area\\n"New York, NY",778.2\\n' > data/table.csv` });
  await page.getByRole("link", { name: "default", exact: true }).first().click();
  const rows = page.locator(".row");
  await rows.filter({ hasText: "red.png" }).waitFor();
  await call("write_file", { path: "note.json", content: '{"city": {"name": "Paris"}}' });
  await call("shell", { command: "exit 3" });
  await call("read_file", { path: "missing.txt" });
  await rows.filter({ hasText: "not_found" }).waitFor();
  assert.equal(await rows.count(), 4, "calls appear as they end");
  await checkAccessibility(page, "the calls");

  // The search and the filters.
  await page.keyboard.press("/");
  await page.keyboard.type("note paris");
  await page.getByText("1 of 4 calls").waitFor();
  await page.getByRole("searchbox").fill("");
  await page.getByLabel("Errors only").check();
  await page.getByText("2 of 4 calls").waitFor();
  await page.getByLabel("Errors only").uncheck();
  await page.getByLabel("Tool").selectOption("write_file");
  await page.getByText("1 of 4 calls").waitFor();
  await page.getByLabel("Tool").selectOption("");

  // By keyboard: the newest call, then the next one; its command repeats it.
  await page.getByRole("listbox", { name: "Calls" }).focus();
  await page.keyboard.press("ArrowDown");
  await page.getByRole("article").getByText("missing.txt").first().waitFor();
  await page.keyboard.press("ArrowDown");
  const details = page.getByRole("article");
  await details.getByText("exit 3").first().waitFor();
  await details.getByRole("heading", { name: "Result" }).waitFor();
  await details.getByText("exit_code").waitFor();
  await checkAccessibility(page, "a call");
  await details.getByRole("button", { name: "Copy as koze call" }).click();
  await details.getByText("Copied").waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(command, `koze call -- shell '{"command":"exit 3"}'`);
  const script = command.replace(/^koze/, '"$0"');
  await promisify(execFile)("sh", ["-c", script, given.koze], { cwd: given.directory }).catch((error) => error);
  await page.getByText("5 calls", { exact: true }).waitFor();

  // Files.
  await details.getByRole("link", { name: "default" }).click();
  await page.getByRole("link", { name: "red.png" }).click();
  const picture = page.getByRole("img", { name: "red.png" });
  await picture.waitFor();
  await page.waitForFunction(() => document.querySelector(".picture")?.naturalWidth === 1);
  await page.getByRole("link", { name: "note.json" }).click();
  await page.getByText('"Paris"').waitFor();
  await checkAccessibility(page, "a file");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download" }).click()]);
  assert.equal(download.suggestedFilename(), "note.json");
  assert.equal(await text(await download.createReadStream()), '{"city": {"name": "Paris"}}');
  await page.getByRole("link", { name: "data", exact: true }).click();
  await page.getByRole("link", { name: "table.csv" }).click();
  await page.getByRole("cell", { name: "New York, NY" }).waitFor();

  await call("write_file", { path: "data/late.txt", content: "late" });
  await page.getByRole("button", { name: "Read again" }).click();
  await page.getByRole("link", { name: "late.txt" }).waitFor();

  // Processes, with their output as it is printed.
  const loop = "for number in one two; do echo $number; until test -e go-$number; do sleep 0.05; done; done";
  await call("shell", { command: loop, background: true });
  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("region", { name: "Processes" }).getByRole("link").click();
  const output = page.getByLabel("Text of the output");
  await output.getByText("one").waitFor();
  await checkAccessibility(page, "a process");
  await call("shell", { command: "touch go-one" });
  await output.getByText("two").waitFor();
  await call("shell", { command: "touch go-two" });
  await page.getByText("Ended with exit code 0.").waitFor();
  assert.equal(await output.innerText(), "one\ntwo\n");

  // Hosts.
  await page.getByRole("link", { name: "Egress" }).click();
  await page.getByRole("heading", { name: "No hosts" }).waitFor();
  await call("shell", { command: "curl -s -m 20 https://refused.invalid/" });
  const attempt = page.getByRole("row").filter({ hasText: "refused.invalid:443" });
  await attempt.getByText("✕ refused").waitFor();
  assert.match(await attempt.innerText(), /allowed_hosts/);
  await checkAccessibility(page, "the hosts");

  // The usage of the sandboxes that run.
  await page.getByRole("link", { name: "koze, all sessions" }).click();
  await page.getByRole("table").getByText(/memory · .* disk$/).waitFor();
  await page.getByRole("link", { name: "default", exact: true }).first().click();

  // The palette goes to another session.
  await call("shell", { command: "true" }, "--session", "other");
  await page.getByRole("navigation", { name: "Sessions" }).getByText("other").waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("session other");
  await checkAccessibility(page, "the palette");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "other" }).waitFor();
  await page.getByText("1 call", { exact: true }).waitFor();

  // A sandbox that sleeps is not woken without a question.
  await koze("stop", "--session", "other", "default");
  await page.getByRole("navigation", { name: "Sessions" }).getByText("sleeping").waitFor();
  await page.getByRole("link", { name: "Files", exact: true }).click();
  await page.getByRole("button", { name: "Wake it" }).click();
  await page.getByText("This directory is empty.").waitFor();
});

// Where a call takes the place of the list, the keyboard opens it and comes back.
await withPage({ viewport: { width: 400, height: 800 } }, async (page) => {
  await page.evaluate(() => (location.hash = "#/default/calls"));
  await page.locator(".row").first().waitFor();
  await page.getByRole("listbox", { name: "Calls" }).focus();
  for (const key of ["ArrowDown", "ArrowDown"]) {
    await page.keyboard.press(key);
    await page.keyboard.press("Enter");
    await page.locator(".details:focus").waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".virtual:focus").waitFor();
  }
  assert.equal(await page.locator(".row.is-active").getAttribute("aria-posinset"), "2");
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [400, 1600]) {
    await withPage({ colorScheme, viewport: { width, height: 800 } }, async (page) => {
      for (const view of ["#/", "#/default/calls/3", "#/default/files", "#/default/egress"]) {
        await page.evaluate((hash) => (location.hash = hash), view);
        await page.locator(".table, .details").first().waitFor();
        const beyond = await page.evaluate(() => {
          const { scrollWidth, clientWidth } = document.documentElement;
          const wide = [...document.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > clientWidth);
          return scrollWidth > clientWidth ? wide.map((one) => one.outerHTML.slice(0, 120)) : [];
        });
        assert.deepEqual(beyond, [], `${view} is wider than ${width}`);
        await checkAccessibility(page, `${view}, ${colorScheme}, ${width}`);
      }
    });
  }
}

async function text(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString();
}
