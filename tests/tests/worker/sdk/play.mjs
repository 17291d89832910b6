// Runs cases, and for each mutation the case that must fail. Prints a line of JSON with the number of runs, `{ planned
// }`, and one for each result, `{ name, mutation?, error? }`.

/** The number of concurrent runs. */
const WIDTH = 4;

/** The timeouts: generous for cases that pass, and shorter for those that must fail, some of which hang. */
const LIMIT_MS = { "as-built": 180_000, mutated: 15_000 };

/** Processes all items with limited concurrency. */
async function each(all, work) {
  const left = [...all];
  await Promise.all(Array.from({ length: WIDTH }, async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await work(one);
  }));
}

/**
 * @param {import("./stage.mjs").Stage} stage closed at the end
 * @param {{ cases: any, lives: any, mutations: any[], only?: string }} what `only` is a part of the names to run
 */
export async function play(stage, { cases, lives, mutations, only }) {
  let next = 0;

  /** Runs a case, and returns the text of its error, if any. */
  async function run(name, { variant, shared }) {
    const number = next++;
    const sandbox = shared ?? stage.sandbox(`case-${number}`, { variant });
    sandbox.variant = variant;
    let timer;
    const late = new Promise((_, fail) => {
      timer = setTimeout(() => fail(new Error("it did not end")), LIMIT_MS[variant] ?? LIMIT_MS.mutated);
    });
    try {
      const work = async () => {
        if (lives[name]) return lives[name](sandbox, "", stage);
        if (!shared) await sandbox.open();
        const dir = `/home/user/case-${number}`;
        await sandbox.makeDir(dir);
        return cases[name](sandbox, dir, stage);
      };
      await Promise.race([work(), late]);
      return undefined;
    } catch (error) {
      return String(error.stack ?? error);
    } finally {
      clearTimeout(timer);
      if (!shared) sandbox.destroy().catch(() => {});
    }
  }

  const works = [
    // Start the slow ones first.
    ...mutations.map(({ name: mutation, fails }) => ({ name: fails, mutation })),
    ...[...Object.keys(lives), ...Object.keys(cases)].map((name) => ({ name, mutation: undefined })),
  ];
  try {
    console.log(JSON.stringify({ planned: [works.length - mutations.length, mutations.length] }));
    const shared = stage.sandbox("shared");
    await shared.open();
    await each(works.filter(({ name, mutation }) => !only || (mutation ?? name).includes(only)), async ({ name, mutation }) => {
      const start = performance.now();
      const error = await run(name, { variant: mutation ?? "as-built", shared: mutation || lives[name] ? undefined : shared });
      console.log(JSON.stringify({ name, mutation, error, ms: Math.round(performance.now() - start) }));
    });
  } finally {
    await stage.close();
  }
}
