// A terminal in a real sandbox, under the policy of the page: typing, sizes, colors, hostile sequences, and its end.

import assert from "node:assert/strict";
import { call, checkAccessibility, withPage } from "./page.mjs";

/** Sequences that must do nothing: the title, the clipboard and links. */
const HOSTILE = "\u001b]0;pwned\u0007\u001b]2;pwned\u0007\u001b]52;c;cHduZWQ=\u0007\u001b]8;;http://evil.invalid/\u0007link\u001b]8;;\u0007 harmless\n";

await call("write_file", { path: "hostile", content: HOSTILE });

/** Opens a terminal, and returns its rows and a function that types a line. */
async function open(page) {
  await page.evaluate(() => (location.hash = "#/default/terminal/default"));
  await page.getByRole("button", { name: "Open a terminal" }).click();
  await page.locator(".screen .xterm-rows").waitFor();
  await page.locator(".screen textarea:focus").waitFor();
  const rows = page.locator(".screen .xterm-rows");
  return {
    rows,
    async run(line, expected) {
      await page.keyboard.type(`${line}\n`);
      await rows.getByText(expected, { exact: true }).first().waitFor();
    },
  };
}

await withPage({}, async (page) => {
  await page.getByRole("link", { name: "default", exact: true }).first().click();
  await page.getByRole("link", { name: "Terminal" }).click();
  await page.getByRole("button", { name: "Open a terminal" }).waitFor();
  await checkAccessibility(page, "no terminal yet");
  const { rows, run } = await open(page);
  await run("echo $((6 * 7))-$TERM", "42-xterm-256color");
  await checkAccessibility(page, "a terminal");

  // Colors, also those that a policy without inline styles would lose.
  await run("printf '\\033[38;2;200;30;40mtrue\\033[0m \\033[31mred\\033[0m\\n%s\\n' done$((1))", "done1");
  const color = (text) => rows.getByText(text, { exact: true }).first().evaluate((span) => getComputedStyle(span).color);
  const channels = (await color("true")).match(/\d+/g).map(Number);
  assert.ok(channels[0] > channels[1] + 100 && channels[0] > channels[2] + 100, String(channels));
  assert.notEqual(await color("red"), await color("done1"));

  // Hostile sequences.
  const title = await page.title();
  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  await run("cat hostile; echo end$((1))", "end1");
  const link = rows.getByText("link harmless", { exact: true });
  await link.waitFor();
  await link.click({ force: true });
  await page.keyboard.down("Control");
  await link.click({ force: true });
  await page.keyboard.up("Control");
  assert.equal(await page.title(), title);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "mine");

  // The terminal follows the size of the window.
  await page.locator(".screen textarea").focus();
  await page.setViewportSize({ width: 800, height: 600 });
  await run('until test "$(stty size | cut -d" " -f2)" -lt 100; do sleep 0.1; done; echo small$((1))', "small1");

  // A program that prints without end is shown, and Ctrl-C reaches it.
  await page.keyboard.type("yes $((20 + 3))\n");
  await rows.getByText("23", { exact: true }).first().waitFor();
  await page.keyboard.press("Control+c");
  await run("echo still$((1))", "still1");

  // Keys of the page belong to the shell: Ctrl-K deletes to the end of the line.
  await page.keyboard.type("echo kept$((1))lost");
  for (let index = 0; index < 4; index += 1) await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Enter");
  await rows.getByText("kept1", { exact: true }).waitFor();

  // F6 leaves it, and Tab does not.
  await page.keyboard.press("Tab");
  await page.locator(".screen textarea:focus").waitFor();
  await page.keyboard.press("F6");
  await page.locator("button:focus").filter({ hasText: "Close" }).waitFor();

  // The end of the shell.
  await page.locator(".screen textarea").focus();
  await page.keyboard.type("exit 7\n");
  await page.getByText("The shell ended with exit code 7.").waitFor();
  await page.keyboard.press("Enter");
  await page.getByText("leaves the terminal").waitFor();

  // To leave the view ends the shell.
  await page.locator(".screen textarea:focus").waitFor();
  await page.keyboard.type("sleep 598\n");
  const count = async () => Number(/"stdout":\s*"(\d+)/.exec(await call("shell", { command: "ps ax | grep -c '[s]leep 598'; true" }))?.[1]);
  while ((await count()) !== 1) await page.waitForTimeout(100);
  await page.getByRole("link", { name: "Calls" }).click();
  while ((await count()) !== 0) await page.waitForTimeout(100);
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [400, 1600]) {
    await withPage({ colorScheme, viewport: { width, height: 800 } }, async (page) => {
      const { run } = await open(page);
      await run("ls --color=always -la /; echo end$((1))", "end1");
      await checkAccessibility(page, `a terminal, ${colorScheme}, ${width}`);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(beyond, 0, `wider than ${width}`);
    });
  }
}
