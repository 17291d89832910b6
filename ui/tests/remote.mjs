// The sandboxes of a server: calls, files, an edit, and the output of a process.

import assert from "node:assert/strict";
import { call, checkAccessibility, withPage } from "./page.mjs";

await call("shell", { command: "echo text > file.txt" });
await call("shell", { command: "echo started; read -r line; echo got: $line", background: true });

await withPage({}, async (page) => {
  await page.getByRole("link", { name: "default", exact: true }).first().click();
  await page.getByText("2 calls", { exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Terminal" }).count(), 0);

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
});
