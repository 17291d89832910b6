// What a call shows: the file that it changed as a diff, and the pictures in its result. Content that is not a picture is not shown as one, whatever its media type.

import assert from "node:assert/strict";
import { call, checkAccessibility, withPage } from "./page.mjs";

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1"><script>window.pwned=1</script></svg>`;

/** Shows a picture of one red pixel, and what only says that it is a picture. */
const CODE = `
import base64
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
class Shown:
    def __init__(self, mime, data): self.bundle = {mime: data}
    def _repr_mimebundle_(self, *_): return self.bundle
display(Shown("image/png", PNG))
display(Shown("image/png", base64.b64encode(${JSON.stringify(SVG)}.encode()).decode()))
display(Shown("image/svg+xml", ${JSON.stringify(SVG)}))
`;

const LINES = ["one", "two", "three", "four"];
const edited = LINES.map((line) => (line === "two" ? "2 <img src=x onerror=window.pwned=1>\u202e" : line));
const NOTES = "/mnt/user-data/workspace/notes.txt";
await call("write_file", { description: "d", path: NOTES, content: LINES.join("\n") }, "--tools=thread");
await call("write_file", { path: "long.txt", content: `${"a line\n".repeat(500)}` });
await call("str_replace", { description: "d", path: NOTES, old_str: LINES.join("\n"), new_str: edited.join("\n") }, "--tools=thread");
await call("write_file", { path: "/missing\u0000/x", content: "not written" });
const ran = await call("workspace__shell__run_code", { language: "python", code: CODE }, "--tools=workspace");
assert.match(ran, /image\/png/);

for (const colorScheme of ["light", "dark"]) {
  for (const width of [400, 1280]) {
    await withPage({ colorScheme, viewport: { width, height: 800 } }, async (page) => {
      const details = page.getByRole("article");
      const show = async (id) => {
        await page.evaluate((hash) => (location.hash = hash), `#/default/calls/${id}`);
        await page.getByRole("article", { name: `Call ${id}`, exact: true }).waitFor();
      };
      const diff = details.getByRole("group", { name: "Diff" });
      const lines = async () => (await diff.locator(".diff-line").allInnerTexts()).map((line) => line.replace(/\s*\n/, ""));

      await show(1);
      assert.deepEqual(await lines(), LINES.map((line) => `+${line}`));
      await details.getByText(`${NOTES} written +4 −0`).waitFor();

      // The journal has the beginning.
      await show(2);
      await details.getByText("Only the beginning was recorded.").waitFor();
      assert.ok((await diff.locator("ins").count()) > 200);

      await show(3);
      await details.getByText(`${NOTES} edited +1 −1`).waitFor();
      assert.deepEqual(await lines(), ["one", "−two", "+2 <img src=x onerror=window.pwned=1>\\u{202e}", "three", "four"]);
      await checkAccessibility(page, `a diff, ${colorScheme}, ${width}`);

      // A call that failed changed nothing.
      await show(4);
      await details.getByText("not written").waitFor();
      assert.equal(await diff.count(), 0);

      await show(5);
      const picture = details.getByRole("img", { name: "Picture 1 of the result" });
      await picture.waitFor();
      await page.waitForFunction(() => document.querySelector(".details .picture")?.naturalWidth === 1);
      await details.getByText("Picture 2, image/png,").getByText("not recorded").waitFor();
      assert.equal(await details.locator("img, svg, iframe, object").count(), 1);
      assert.equal(await details.getByText("[picture 1]").count(), 1);
      await checkAccessibility(page, `a picture, ${colorScheme}, ${width}`);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      assert.ok(!beyond, `wider than ${width}`);

      // The server says what it is, and a browser shows nothing but a picture.
      const read = (path, method = "GET") =>
        page.evaluate(
          async ([path, method]) => {
            const response = await fetch(path, { method });
            return { status: response.status, headers: Object.fromEntries(response.headers) };
          },
          [`/pictures/${path}`, method],
        );
      const { status, headers } = await read("default/5/1");
      assert.equal(status, 200);
      assert.equal(headers["content-type"], "image/png");
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["content-disposition"], "attachment");
      assert.match(headers["content-security-policy"], /default-src 'none'.*sandbox/);
      for (const path of ["default/5/2", "default/5/3", "default/4/1", "other/5/1", "default/5/0", "default/5"]) {
        assert.equal((await read(path)).status, 404, path);
      }
      assert.equal((await read("default/5/1", "POST")).status, 405);
    });
  }
}
