// What the tests share: Chromium, the page in it, and koze. A test gets `{url, koze, directory, chromium}` as its argument.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

export const given = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The timeout of expected events, in milliseconds. */
const TIMEOUT = 30_000;

/** Runs koze in the project, and returns its output. A failure of the tool is no failure of the test. */
export async function koze(...args) {
  const run = promisify(execFile)(given.koze, args, { cwd: given.directory });
  return run.then(
    ({ stdout }) => stdout,
    (error) => error.stdout,
  );
}

/** Calls a tool. */
export function call(tool, input, ...options) {
  return koze("call", ...options, tool, JSON.stringify(input));
}

/** Runs a test with the page, and checks that nothing ran in it that is not its own. `isAllowed` permits the requests of frames. */
export async function withPage(options, test, isAllowed = () => false) {
  const browser = await chromium.launch({ executablePath: given.chromium });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const page = await context.newPage();
    page.setDefaultTimeout(TIMEOUT);
    const found = await watch(page, isAllowed);
    await page.goto(given.url);
    await page.getByRole("link", { name: "koze, all sessions" }).waitFor();
    assert.equal(new URL(page.url()).hash, "#/", "the token is not kept in the URL");
    await test(page, context);
    assert.deepEqual(found.problems, []);
    assert.deepEqual(await page.evaluate(() => window.violations), [], "violations of the policy");
    assert.equal(await page.evaluate(() => window.pwned), undefined, "a hostile text ran");
  } finally {
    await browser.close();
  }
}

/** Collects what a page must not do. */
async function watch(page, isAllowed) {
  const problems = [];
  const origin = new URL(given.url).origin;
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("popup", () => problems.push("a popup"));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith(`blob:${origin}/`) && !isAllowed(url)) problems.push(`request: ${url}`);
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => {
      window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  return { problems };
}

/** Checks a view with axe-core. It runs in a world of its own, where the policy of the page does not apply. `select` selects the frame. */
export async function checkAccessibility(page, view, select = (tree) => tree) {
  const session = await page.context().newCDPSession(page);
  try {
    const { frameTree } = await session.send("Page.getFrameTree");
    const world = { frameId: select(frameTree).frame.id, worldName: "axe" };
    const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", world);
    const evaluate = async (expression) => {
      const evaluated = await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true });
      assert.equal(evaluated.exceptionDetails, undefined, JSON.stringify(evaluated.exceptionDetails));
      return evaluated.result.value;
    };
    await evaluate(`${axe}; void 0`);
    const result = await evaluate("axe.run(document, { resultTypes: ['violations'] })");
    const found = result.violations.map(({ id, nodes }) => [id, ...nodes.map((node) => `${node.html} ${node.failureSummary}`)]);
    assert.deepEqual(found, [], `axe-core in ${view}`);
    assert.ok(result.passes.length > 10, "axe-core has checked something");
  } finally {
    await session.detach();
  }
}
