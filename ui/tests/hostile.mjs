// What sandboxes and models write is text. Nothing of it runs, and no request leaves the page.

import assert from "node:assert/strict";
import { call, given, withPage } from "./page.mjs";

const IMG = "<img src=x onerror=window.pwned=1>";
const SCRIPT = "<script>window.pwned=1</script>";
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1">${SCRIPT}</svg>`;
const ESCAPES = "\u001b[31mred\u001b[0m\u001b]0;title\u0007\u001b]8;;http://evil.invalid/\u0007link\u001b]8;;\u0007\u009b2J";
const BIDI = "invoice\u202Efdp.exe";

const FILES = {
  [IMG]: "a name",
  [`"onmouseover=window.pwned=1 x="`]: "another name",
  "javascript:window.pwned=1": "a name like a URL",
  [BIDI]: "a reversed name",
  "line\nbreak": "a name of two lines",
  "page.html": `<!doctype html>${SCRIPT}${IMG}`,
  "image.svg": SVG,
  // A name says nothing about the content.
  "image.png": SVG,
  "notes.md": `# Notes\n${SCRIPT}\n[click](javascript:window.pwned=1)\n![x](http://evil.invalid/x.png)`,
  "table.csv": `${IMG},${SCRIPT}\n=cmd,${SVG.replaceAll('"', "'")}`,
  "data.json": JSON.stringify({ [IMG]: { __proto__: null, html: SCRIPT, constructor: IMG } }),
  "escapes.txt": ESCAPES,
};

for (const [path, content] of Object.entries(FILES)) await call("write_file", { path, content });
await call(IMG.slice(0, 60), { [IMG]: SCRIPT });
await call("shell", { command: `echo '${IMG}${SCRIPT}'; exit 1` }, "--session", IMG);
await call("shell", { command: "cat escapes.txt page.html image.svg", background: true });

await withPage({}, async (page, context) => {
  // Without the page's policy and as markup, these texts run.
  const control = await context.newPage();
  for (const html of [IMG, SCRIPT, SVG]) {
    await control.setContent(html);
    await control.waitForFunction(() => window.pwned === 1);
    await control.goto("about:blank");
  }
  await control.close();

  const table = page.getByRole("table");
  await table.getByText(IMG).waitFor();

  // Calls.
  await page.getByRole("link", { name: "default", exact: true }).first().click();
  await page.locator(".row").nth(Object.keys(FILES).length).waitFor();
  const list = page.getByRole("listbox");
  await list.focus();
  await page.keyboard.press("End");
  for (let number = 0; number < Object.keys(FILES).length + 2; number += 1) {
    await page.getByRole("article").waitFor();
    await page.keyboard.press("ArrowUp");
  }
  await page.getByRole("searchbox").fill(IMG.slice(0, 20));

  // Each file, as a name and as a preview.
  await page.getByRole("link", { name: "Files", exact: true }).click();
  const entries = page.getByRole("region", { name: "Entries" }).getByRole("link");
  await entries.first().waitFor();
  const names = await entries.allInnerTexts();
  assert.equal(names.length, Object.keys(FILES).length);
  assert.ok(names.includes("invoice\\u{202e}fdp.exe") && names.includes("line\\u{a}break"), names.join("|"));
  for (let index = 0; index < names.length; index += 1) {
    await entries.nth(index).click();
    const preview = page.getByRole("article", { name: "Preview" });
    await preview.getByRole("heading", { name: names[index] }).waitFor();
    await preview.locator("pre, table, details").first().waitFor();
    assert.equal(await preview.locator("img").count(), 0, names[index]);
  }
  await page.getByRole("link", { name: "escapes.txt" }).click();
  await page.getByText("\\u{1b}[31mred").waitFor();

  // The output of a process.
  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("region", { name: "Processes" }).getByRole("link").click();
  const output = page.getByLabel("Text of the output");
  await output.getByText(SCRIPT).waitFor();
  assert.ok((await output.innerText()).startsWith("redlink<!doctype html>"), await output.innerText());
  await page.getByText(/^Ended/).waitFor();

  // The session, also in the palette.
  await page.keyboard.press("Control+k");
  await page.keyboard.type("session <img");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: IMG }).waitFor();

  // A file that someone opens by its URL is saved, and never shown.
  const origin = new URL(given.url).origin;
  for (const name of ["page.html", "image.svg"]) {
    const other = await context.newPage();
    const saved = other.waitForEvent("download");
    await other.goto(`${origin}/sessions/default/sandboxes/default/files/home/user/${name}`).catch(() => undefined);
    assert.equal((await saved).suggestedFilename(), name);
    await other.close();
  }
});
