// What scripts keep, servers in frames, and snapshots. The server in the sandbox is hostile.

import assert from "node:assert/strict";
import { call, checkAccessibility, given, koze, withPage } from "./page.mjs";

const IMG = "<img src=x onerror=window.pwned=1>";
const own = new URL(given.url);

// What a page in a frame may try. It then says what it could read.
const HOSTILE = `<!doctype html><title>hostile</title><h1 id="told">waiting</h1><script>
const told = [];
const attempt = (name, run) => { try { const value = run(); told.push(name + "=" + (value === null ? "null" : "done")); } catch (error) { told.push(name + "=" + error.name); } };
attempt("read", () => parent.document.body);
attempt("navigate", () => { top.location = "about:blank#gone"; });
attempt("open", () => window.open("about:blank"));
attempt("alert", () => alert("hostile"));
attempt("download", () => { const a = document.createElement("a"); a.href = "data:text/plain,x"; a.download = "x"; a.click(); });
fetch("${own.origin}/sessions", { credentials: "include" }).then(() => "done", (error) => error.name).then((end) => {
  told.push("fetch=" + end);
  document.getElementById("told").textContent = told.join(" ");
});
</script>`;

const code = (text) => call("run_sandbox_code", { code: text }, "--tools=script");
await code(`await state.set("cursor", { page: 3 }); await state.set(${JSON.stringify(IMG)}, ${JSON.stringify(IMG)});
await db.sql("create table visits (id integer primary key, url text not null)");
await db.sql("insert into visits (url) values (?), (?)", ["a.example", ${JSON.stringify(IMG)}]);
await db.sql('create table "odd"" name" (x)')`);
await call("create_library", { name: "sums", code: "exports.add = (a, b) => a + b;", description: IMG }, "--tools=script");
const schema = { type: "object", properties: { n: { type: "number" } } };
await call("create_tool", { name: "double_it", description: "Double a number.", parameter_schema: schema, code: "return args.n * 2" }, "--tools=script");
await call("disable_tool", { name: "double_it" }, "--tools=script");
await call("write_file", { path: "site/index.html", content: HOSTILE });
await call("shell", { command: "cd site && exec python3 -m http.server 8000 --bind 127.0.0.1", background: true });
await call("workspace__shell__write_file", { path: "a.txt", content: "one" }, "--tools=workspace");

const isPreview = (url) => /^http:\/\/8000-default-[a-z0-9]+\.localhost:\d+\//.test(url);

await withPage(
  {},
  async (page) => {
    const go = (view) => page.evaluate((hash) => (location.hash = hash), view);
    const content = page.getByRole("article", { name: "Content" });

    // Scripts.
    await go("#/default/scripts");
    await page.getByRole("heading", { name: "State 2 keys" }).waitFor();
    await page.getByRole("region", { name: "Created tools" }).getByText("version 1, disabled · Double a number.").waitFor();
    await page.getByRole("link", { name: "cursor" }).click();
    await content.getByText("page:").waitFor();
    await page.getByRole("link", { name: IMG }).click();
    await content.getByText(`"${IMG}"`).waitFor();
    await page.getByRole("link", { name: "visits" }).click();
    await content.getByText("primary key").waitFor();
    await content.getByRole("button", { name: "Read the first rows" }).click();
    await content.getByRole("cell", { name: IMG }).waitFor();
    await checkAccessibility(page, "a table of scripts");
    await page.getByRole("link", { name: 'odd" name' }).click();
    await content.getByRole("button", { name: "Read the first rows" }).click();
    await content.getByText("The table is empty.").waitFor();
    await page.getByRole("link", { name: "sums" }).click();
    await content.getByText("exports.add").waitFor();
    await page.getByRole("link", { name: "double_it" }).click();
    await content.getByText("return args.n * 2").waitFor();
    await checkAccessibility(page, "a tool of scripts");
    // The page's own calls have its name.
    assert.match(await koze("log", "--tool", "read_tool", "--json"), /"client":"koze ui"/);

    // Snapshots: of the workspace, of a sandbox that was created from it, and what both have become.
    await go("#/default/snapshots");
    await page.getByText("0 snapshots").waitFor();
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page.getByText("Took the snapshot snap_").waitFor();
    const tree = page.getByRole("region", { name: "Tree of snapshots" });
    await tree.getByRole("button", { name: /^Branch/ }).click();
    await page.getByText(/Created the sandbox shell-branch-/).waitFor();
    await tree.getByRole("button", { name: /^Restore/ }).click();
    await page.getByText(/Created the sandbox shell-restored-/).waitFor();
    await tree.getByRole("button", { name: /^Take a snapshot of shell-branch-/ }).click();
    await tree.getByText(/ after snap_/).waitFor();
    assert.equal(await tree.getByRole("listitem").count(), 4);
    await checkAccessibility(page, "the snapshots");
    await tree.getByRole("link", { name: /^shell-restored-/ }).click();
    await page.getByRole("link", { name: /shell-restored-.*/ }).first().waitFor();

    // Previews, with a hostile server.
    await go("#/default/previews/default");
    await page.getByText("No port of default has a preview yet.").waitFor();
    await page.getByRole("spinbutton", { name: "Port" }).fill("8000");
    await page.getByRole("button", { name: "Show the port" }).click();
    const frame = page.frameLocator("iframe");
    await frame.locator("#told").getByText("fetch=").waitFor();
    assert.equal(await frame.locator("#told").innerText(), "read=SecurityError navigate=SecurityError open=null alert=done download=done fetch=TypeError");
    const sandbox = await page.locator("iframe").getAttribute("sandbox");
    assert.ok(!/top-navigation|popups|modals|downloads/.test(sandbox), sandbox);
    await page.getByText("Everything below this bar is from the sandbox.").waitFor();
    await checkAccessibility(page, "a preview");

    // The frame can show neither another host nor the page itself.
    for (const to of ["https://evil.invalid/", `${own.origin}/`]) {
      const inner = page.frames().find((one) => isPreview(one.url()));
      const navigated = page.waitForEvent("framenavigated", (one) => one !== page.mainFrame());
      await inner.evaluate((to) => void setTimeout(() => (location.href = to)), to);
      await navigated;
      assert.deepEqual(page.frames().slice(1).map((one) => one.url()), ["chrome-error://chromewebdata/"], to);
      await page.getByRole("button", { name: "Load again" }).click();
      await frame.locator("#told").getByText("fetch=").waitFor();
    }
    assert.deepEqual(await page.evaluate(() => window.violations.splice(0)), ["frame-src https://evil.invalid"]);
  },
  isPreview,
);

for (const colorScheme of ["light", "dark"]) {
  for (const width of [400, 1600]) {
    await withPage(
      { colorScheme, viewport: { width, height: 800 } },
      async (page) => {
        for (const [view, shown] of [
          ["#/default/scripts/table/visits", ".columns"],
          ["#/default/snapshots", ".tree li"],
          ["#/default/previews/default/8000", ".preview"],
        ]) {
          await page.evaluate((hash) => (location.hash = hash), view);
          await page.locator(shown).first().waitFor();
          const isWider = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
          assert.ok(!isWider, `${view} is wider than ${width}`);
          await checkAccessibility(page, `${view}, ${colorScheme}, ${width}`);
        }
      },
      (url) => isPreview(url) || url.startsWith(own.origin),
    );
  }
}
