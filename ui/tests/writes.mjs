// What the page changes: files that are uploaded, edited and deleted, and processes that are written to and stopped.

import assert from "node:assert/strict";
import { call, checkAccessibility, withPage } from "./page.mjs";

async function content(path) {
  return JSON.parse(await call("shell", { command: `cat ${path}` })).stdout;
}

await call("shell", { command: "printf 'one\\r\\ntwo\\r\\n' > dos.txt; printf 'a\\nb\\r\\n' > mixed.txt; printf 'text\\n' > edited.txt; echo x > gone.txt" });

/** Opens a file of the home directory. */
async function open(page, name) {
  await page.evaluate((hash) => (location.hash = hash), `#/default/files/default/${encodeURIComponent("/home/user")}/${name}`);
  const preview = page.getByRole("article", { name: "Preview" });
  await preview.getByRole("heading", { name }).waitFor();
  return preview;
}

await withPage({}, async (page) => {
  await page.evaluate(() => (location.hash = "#/default/files/default"));
  await page.getByRole("link", { name: "edited.txt" }).waitFor();

  // Uploads. Names are text, and a file that exists is replaced only after a question.
  const upload = (...files) => page.locator("input[type=file]").setInputFiles(files.map(([name, text]) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) })));
  await upload(["<b>new.txt", "new\n"], ["second.txt", "second\n"]);
  await page.getByRole("link", { name: "<b>new.txt" }).waitFor();
  assert.equal(await content("second.txt"), "second\n");
  await upload(["second.txt", "replaced\n"]);
  const question = page.getByRole("dialog");
  await question.getByRole("heading", { name: "Replace second.txt?" }).waitFor();
  await checkAccessibility(page, "a question");
  await question.getByRole("button", { name: "Cancel" }).click();
  await question.waitFor({ state: "detached" });
  assert.equal(await content("second.txt"), "second\n");
  await upload(["second.txt", "replaced\n"]);
  await question.getByRole("button", { name: "Replace" }).click();
  await question.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Upload…" }).waitFor();
  assert.equal(await content("second.txt"), "replaced\n");

  // An edit.
  let preview = await open(page, "edited.txt");
  await preview.getByRole("button", { name: "Edit" }).click();
  const field = preview.getByRole("textbox", { name: "Text of the file" });
  await field.fill("edited\n");
  await checkAccessibility(page, "an editor");
  await field.press("Control+s");
  await preview.getByRole("button", { name: "Edit" }).waitFor();
  await preview.locator("pre").getByText("edited").waitFor();
  assert.equal(await content("edited.txt"), "edited\n");

  // A conflict: nothing is lost, neither here nor there.
  await preview.getByRole("button", { name: "Edit" }).click();
  await field.fill("mine\n");
  await call("write_file", { path: "edited.txt", content: "theirs\n" });
  await preview.getByRole("button", { name: "Save" }).click();
  const conflict = preview.getByRole("alert", { name: "Conflict" });
  await conflict.getByText("The file was changed after you opened it.").waitFor();
  await conflict.getByText("What the file contains now").click();
  await conflict.getByText("theirs").waitFor();
  await checkAccessibility(page, "a conflict");
  assert.equal(await field.inputValue(), "mine\n");
  assert.equal(await content("edited.txt"), "theirs\n");
  // The draft outlives the view, and another change is another conflict.
  await open(page, "second.txt");
  preview = await open(page, "edited.txt");
  assert.equal(await field.inputValue(), "mine\n");
  await preview.getByRole("button", { name: "Save" }).click();
  await conflict.getByText("theirs").waitFor({ state: "attached" });
  await call("write_file", { path: "edited.txt", content: "theirs again\n" });
  await conflict.getByRole("button", { name: "Overwrite the file" }).click();
  await conflict.getByText("theirs again").waitFor({ state: "attached" });
  assert.equal(await content("edited.txt"), "theirs again\n");
  await conflict.getByRole("button", { name: "Overwrite the file" }).click();
  await preview.locator("pre").getByText("mine").waitFor();
  assert.equal(await content("edited.txt"), "mine\n");

  // Ends of lines are kept, or the file is not edited.
  preview = await open(page, "dos.txt");
  await preview.getByRole("button", { name: "Edit" }).click();
  await field.fill("one\ntwo\nthree\n");
  await preview.getByRole("button", { name: "Save" }).click();
  await preview.getByRole("button", { name: "Edit" }).waitFor();
  assert.equal(await content("dos.txt"), "one\r\ntwo\r\nthree\r\n");
  preview = await open(page, "mixed.txt");
  await preview.getByRole("button", { name: "Edit" }).click();
  await preview.getByText("Its lines end in different ways").waitFor();

  // A file that was removed meanwhile.
  preview = await open(page, "gone.txt");
  await preview.getByRole("button", { name: "Edit" }).click();
  await field.fill("kept\n");
  await call("shell", { command: "rm gone.txt" });
  await preview.getByRole("button", { name: "Save" }).click();
  await conflict.getByRole("button", { name: "Create it again" }).click();
  await preview.locator("pre").getByText("kept").waitFor();

  // A deletion, after a question.
  await preview.getByRole("button", { name: "Delete" }).click();
  await question.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await content("gone.txt"), "kept\n");
  await preview.getByRole("button", { name: "Delete" }).click();
  await question.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("link", { name: "gone.txt" }).waitFor({ state: "detached" });
  assert.ok((await call("shell", { command: "ls" })).includes("edited.txt"));
  assert.ok(!(await call("shell", { command: "ls" })).includes("gone.txt"));

  // Processes.
  await call("shell", { command: "while read -r line; do echo got: $line; done; echo end of input; trap 'echo no' TERM; while :; do sleep 0.1; done", background: true });
  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("region", { name: "Processes" }).getByRole("link").click();
  const output = page.getByLabel("Text of the output");
  const line = page.getByRole("textbox", { name: "A line for its standard input" });
  await line.fill("$(touch pwned) <b>");
  await line.press("Enter");
  await output.getByText("got: $(touch pwned) <b>").waitFor();
  await page.getByRole("button", { name: "End input" }).click();
  await output.getByText("end of input").waitFor();
  await checkAccessibility(page, "a process");
  await page.getByRole("button", { name: "Stop" }).click();
  await output.getByText("no", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Kill" }).click();
  await page.getByText("Ended with exit code 137.").waitFor();
  assert.ok(!(await call("shell", { command: "ls" })).includes("pwned"));
});
