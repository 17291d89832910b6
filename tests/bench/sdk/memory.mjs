// Measures the memory of the long-running programs in a container: the SDK's server, and koze's guest.

/** Prints the names of processes and their memory use. */
const LOOK = "cd /proc; for p in [1-9]*; do cat $p/status 2>/dev/null; done";

/**
 * Returns the memory of each long-running program, in KiB.
 *
 * @param {(command: string) => Promise<string>} shell
 */
export async function sizes(shell) {
  const found = new Map();
  for (const status of (await shell(LOOK)).split(/^Name:/m).slice(1)) {
    const name = status.slice(0, status.indexOf("\n")).trim();
    const size = Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1] ?? 0);
    // Skip the measuring shell itself.
    if (name === "bash" || name === "cat" || size === 0) continue;
    found.set(name, (found.get(name) ?? 0) + size);
  }
  return found;
}

/** Describes the changes in one sentence. @param {Map<string, number>} before @param {Map<string, number>} after */
export function differences(before, after) {
  const all = [...after].map(([name, size]) => `${name} ${mebibytes(before.get(name) ?? 0)} to ${mebibytes(size)} MiB`);
  return `resident memory over the run: ${all.join(", ")}`;
}

function mebibytes(kibibytes) {
  return (kibibytes / 1024).toFixed(1);
}
