// The sandboxes of a server: calls, files, an edit, and the output of a process.

import assert from "node:assert/strict";
import { call, checkAccessibility, withPage } from "./page.mjs";

await call("shell", { command: "echo text > file.txt" });
await call("shell", { command: "echo started; read -r line; echo got: $line", background: true });

await withPage({}, async (page) => {
  await page.getByRole("link", { name: "default", exact: true }).first().click();
  await page.getByText("2 calls", { exact: true }).waitFor();

  await page.getByRole("link", { name: "Files", exact: true }).click();
  await page.getByRole("link", { name: "file.txt" }).click();
  const preview = page.getByRole("article", { name: "Preview" });
  await preview.getByRole("button", { name: "Edit" }).click();
  const field = preview.getByRole("textbox", { name: "Text of the file" });
  await field.fill("edited\n");
  await preview.getByRole("button", { name: "Save" }).click();
  await preview.locator("pre").getByText("edited").waitFor();
  assert.equal(JSON.parse(await call("shell", { command: "cat file.txt" })).stdout, "edited\n");

  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("region", { name: "Processes" }).getByRole("link").click();
  const output = page.getByLabel("Text of the output");
  await output.getByText("started").waitFor();
  const line = page.getByRole("textbox", { name: "A line for its standard input" });
  await line.fill("a line");
  await line.press("Enter");
  await output.getByText("got: a line").waitFor();
  await page.getByText("Ended with exit code 0.").waitFor();
  await checkAccessibility(page, "a process of a server");

  // A terminal, whose shell is a process of the server.
  const openTerminal = async () => {
    await page.getByRole("button", { name: "Open a terminal" }).click();
    await page.locator(".screen textarea:focus").waitFor();
  };
  const rows = page.locator(".screen .xterm-rows");
  const run = async (line, expected) => {
    await page.keyboard.type(`${line}\n`);
    await rows.getByText(expected, { exact: true }).first().waitFor();
  };
  await page.getByRole("link", { name: "Terminal" }).click();
  await openTerminal();
  await run("echo $((6 * 7))-$TERM", "42-xterm-256color");
  await page.setViewportSize({ width: 800, height: 600 });
  await run('until test "$(stty size | cut -d" " -f2)" -lt 100; do sleep 0.1; done; echo small$((1))', "small1");
  await page.keyboard.type("exit 7\n");
  await page.getByText("The shell ended with exit code 7.").waitFor();
  await page.keyboard.press("Enter");

  // To leave the view ends the shell.
  const count = async (seconds) => Number(JSON.parse(await call("shell", { command: `ps ax | grep -c '[s]leep ${seconds}'; true` })).stdout);
  await page.locator(".screen textarea:focus").waitFor();
  await page.keyboard.type("sleep 598\n");
  while ((await count(598)) !== 1) await page.waitForTimeout(100);
  await page.getByRole("link", { name: "Egress" }).click();
  while ((await count(598)) !== 0) await page.waitForTimeout(100);
});
