// A small hand-written Worker over `@cloudflare/sandbox`. It implements the operations that the benchmark calls, with
// the SDK's own `exec`, `writeFile` and `readFile`.

import { type Sandbox as Base, Sandbox, getSandbox } from "@cloudflare/sandbox";

interface Env {
  TOKEN: string;
  SHELL_SANDBOX: DurableObjectNamespace<Base>;
}

/** Like the sandboxes of a new koze project. */
export class ShellSandbox extends Sandbox {
  override enableInternet = false;
}

type Input = Record<string, string>;
type Box = ReturnType<typeof getSandbox>;

const tools: Record<string, (env: Env, input: Input) => Promise<unknown>> = {
  async shell(env, { sandbox, command }) {
    const { stdout, stderr, exitCode } = await open(env, sandbox).exec(command!);
    return { stdout, stderr, exit_code: exitCode };
  },

  async write_file(env, { sandbox, path, content }) {
    await open(env, sandbox).writeFile(path!, content!);
    return { ok: true };
  },

  /** Transfers one file. */
  async transfer(env, { from_sandbox, from_path, to_sandbox, to_path }) {
    await copy(open(env, from_sandbox), from_path!, open(env, to_sandbox), to_path!);
    return { ok: true };
  },

  /** Transfers a tree as an archive of `tar`. */
  async transfer_tar(env, { from_sandbox, from_path, to_sandbox, to_path }) {
    const [from, to] = [open(env, from_sandbox), open(env, to_sandbox)];
    const archive = `/tmp/${crypto.randomUUID()}.tar`;
    await run(from, `tar -cf '${archive}' -C '${from_path}' .`);
    await copy(from, archive, to, archive);
    await run(from, `rm '${archive}'`);
    await run(to, `mkdir -p '${to_path}' && tar -xf '${archive}' -C '${to_path}' && rm '${archive}'`);
    return { ok: true };
  },

  /** Transfers a tree file by file. */
  async transfer_files(env, { from_sandbox, from_path, to_sandbox, to_path }) {
    const [from, to] = [open(env, from_sandbox), open(env, to_sandbox)];
    const find = async (kind: string) => (await run(from, `cd '${from_path}' && find . -type ${kind}`)).trimEnd().split("\n");
    for (const dir of await find("d")) await to.mkdir(`${to_path}/${dir}`, { recursive: true });
    for (const file of await find("f")) await copy(from, `${from_path}/${file}`, to, `${to_path}/${file}`);
    return { ok: true };
  },

  async sandbox_destroy(env, { sandbox }) {
    await open(env, sandbox).destroy();
    return { ok: true };
  },
};

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    if (request.headers.get("authorization") !== `Bearer ${env.TOKEN}`) return new Response("Unauthorized\n", { status: 401 });
    const tool = tools[new URL(request.url).pathname.slice(1)];
    if (!tool) return new Response("Not found\n", { status: 404 });
    return Response.json(await tool(env, await request.json()));
  },
};

function open(env: Env, sandbox = "default"): Box {
  return getSandbox(env.SHELL_SANDBOX, sandbox);
}

async function run(box: Box, command: string): Promise<string> {
  const { stdout, stderr, exitCode } = await box.exec(command);
  if (exitCode !== 0) throw new Error(`${command}: ${stderr}`);
  return stdout;
}

/** Copies a binary file. */
async function copy(from: Box, path: string, to: Box, target: string): Promise<void> {
  const { content } = await from.readFile(path, { encoding: "base64" });
  await to.writeFile(target, content, { encoding: "base64" });
}
